"""Open files run out neither by clients nor for good: by a process with a really low limit."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.floods.conftest import carries, log_of
from tests.support.certificates import Certificates
from tests.support.http_client import connected
from tests.support.scripted_api_server import ScriptedApiServer
from tests.support.serve_process import Understudy, serving_by
from tests.support.sizes import sized, soak

OPEN_FILES = sized(700, full=4_000)
# What the reserve leaves, two files for each client: see proxy/serving/limits/connections.py.
FITTING = (OPEN_FILES - 516) // 2
# So few that the reserve itself cannot be had: then files do run out.
FAR_TOO_FEW = 56
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def limited(
    open_files: int,
    api: ScriptedApiServer,
    certificates: Certificates,
    own_kubeconfig: Path,
) -> AsyncIterator[Understudy]:
    sections = {
        "serving": {"certificateRefresh": "1s"},
        "upstream": {"kubeconfig": str(own_kubeconfig), "credentialRefresh": "1s"},
    }
    async with serving_by(
        sections, api, certificates, own_kubeconfig.parent, open_files=open_files
    ) as understudy:
        await understudy.wait_for("/readyz", 200)
        yield understudy


def open_files_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def cpu_seconds_of(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / TICKS_PER_SECOND


@contextlib.asynccontextmanager
async def held(address: tuple[str, int], count: int) -> AsyncIterator[None]:
    """Hold so many connections that say nothing."""
    with contextlib.ExitStack() as stack:

        def connect() -> None:
            for _ in range(count):
                one = stack.enter_context(socket.socket())
                one.settimeout(2)
                with contextlib.suppress(OSError):
                    one.connect(address)

        await asyncio.to_thread(connect)
        yield


async def answers(understudy: Understudy) -> bool:
    try:
        async with asyncio.timeout(2):
            return (await understudy.get()).status == 200
    except (OSError, TimeoutError):
        return False


@soak
@pytest.mark.timeout(120)
async def test_more_clients_than_files_leave_files_for_everything_else(
    api: ScriptedApiServer, certificates: Certificates, own_kubeconfig: Path
) -> None:
    api.own_tokens.add("the-second-token")
    async with limited(OPEN_FILES, api, certificates, own_kubeconfig) as understudy:
        assert await understudy.metric("understudy_client_connections_limit") == FITTING
        pid = understudy.process.pid
        most = 0
        async with connected(understudy.address, understudy.context) as client:
            assert (await client.request()).status == 200
            async with held(understudy.address, 2 * OPEN_FILES):
                for _ in range(5):
                    most = max(most, await asyncio.to_thread(open_files_of, pid))
                    assert (await understudy.probe("/livez"))[0] == 200
                await asyncio.to_thread(
                    (own_kubeconfig.parent / "token").write_text, "the-second-token"
                )
                async with asyncio.timeout(20):
                    while not carries(api, "the-second-token"):
                        assert (await client.request()).status == 200
                        await asyncio.sleep(0.1)
                most = max(most, await asyncio.to_thread(open_files_of, pid))
        assert await answers(understudy)
        log = await log_of(understudy.log_file)

    assert most < FITTING + 516
    assert '"client connections reduced"' in log
    assert "Too many open files" not in log


@pytest.mark.timeout(120)
async def test_a_process_that_runs_out_of_files_neither_spins_nor_stays_deaf(
    api: ScriptedApiServer, certificates: Certificates, own_kubeconfig: Path
) -> None:
    async with limited(FAR_TOO_FEW, api, certificates, own_kubeconfig) as understudy:
        pid = understudy.process.pid
        async with held(understudy.admin_address, 200), held(understudy.address, 200):
            await asyncio.sleep(1)  # whatever follows from the flood itself
            began, spent = time.monotonic(), cpu_seconds_of(pid)
            await asyncio.sleep(3)
            spent = (cpu_seconds_of(pid) - spent) / (time.monotonic() - began)
            files = open_files_of(pid)
        await understudy.wait_for("/livez", 200)
        async with asyncio.timeout(20):
            while not await answers(understudy):  # noqa: ASYNC110 - only its answers tell
                await asyncio.sleep(0.2)

    assert files == FAR_TOO_FEW
    assert spent < 0.5
