"""A flooded admin port costs neither the data port, nor probes, nor the reading of files.

The proxy runs as a process of its own, with the limit of open files that the test says.
"""

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

import pytest

from tests.floods.conftest import carries, log_of
from tests.support.certificates import Certificates
from tests.support.http_client import connected
from tests.support.scraping_flood import scraping
from tests.support.scripted_api_server import ScriptedApiServer
from tests.support.serve_process import Understudy, serving_by
from tests.support.sizes import IS_SOAKING, sized, soak

log = logging.getLogger(__name__)

HALF_A_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"
# When soaking, the limit is the default one of the machine that runs the test.
OPEN_FILES = None if IS_SOAKING else 600
HELD = sized(640, full=15_000)
SCRAPERS = 16
PROBE_SECONDS = 1.0


@pytest.fixture
async def understudy(
    api: ScriptedApiServer, certificates: Certificates, own_kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Understudy]:
    sections = {"upstream": {"kubeconfig": str(own_kubeconfig), "credentialRefresh": "1s"}}
    async with serving_by(
        sections, api, certificates, tmp_path, open_files=OPEN_FILES
    ) as understudy:
        await understudy.wait_for("/readyz", 200)
        yield understudy


@contextlib.asynccontextmanager
async def held_connections(address: tuple[str, int], sent: bytes) -> AsyncIterator[int]:
    """Open connections that send this and nothing more; yield how many could be opened."""
    with contextlib.ExitStack() as stack:
        yield await asyncio.to_thread(_open_connections, stack, address, sent)


def _open_connections(stack: contextlib.ExitStack, address: tuple[str, int], sent: bytes) -> int:
    opened = 0
    for number in range(HELD):
        one = stack.enter_context(socket.socket())
        one.settimeout(2)
        # The ports of one address do not suffice for the full size.
        one.bind((f"127.0.0.{2 + number // 10_000}", 0))
        try:
            one.connect(address)
            one.sendall(sent)
        except OSError:
            continue  # turned away at once, or not accepted any more
        opened += 1
    return opened


async def probe_seconds(understudy: Understudy) -> float:
    """Return how long /livez took; as a kubelet's, each probe is a connection of its own."""
    began = time.perf_counter()
    async with asyncio.timeout(PROBE_SECONDS):
        status, _ = await understudy.probe("/livez")
    assert status == 200
    return time.perf_counter() - began


@soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("sent", [b"", HALF_A_REQUEST], ids=["silent", "half a request"])
async def test_half_open_requests_take_neither_the_data_port_nor_probes_nor_files(
    understudy: Understudy, api: ScriptedApiServer, tmp_path: Path, sent: bytes
) -> None:
    api.own_tokens.add("the-second-token")
    async with held_connections(understudy.admin_address, sent) as opened:
        assert opened > 0.9 * HELD
        for _ in range(5):
            await probe_seconds(understudy)
            assert (await understudy.get()).status == 200
            await asyncio.sleep(0.2)
        await asyncio.to_thread((tmp_path / "token").write_text, "the-second-token")
        async with asyncio.timeout(20):
            while not carries(api, "the-second-token"):
                assert (await understudy.get()).status == 200
                await asyncio.sleep(0.1)
    assert "Too many open files" not in await log_of(understudy.log_file)


async def latencies(understudy: Understudy, seconds: float) -> list[float]:
    """Return how long each of the requests of one client took, sorted."""
    took = []
    ends = time.perf_counter() + seconds
    async with connected(understudy.address, understudy.context) as client:
        while time.perf_counter() < ends:
            began = time.perf_counter()
            assert (await client.request()).status == 200
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0.005)
    return sorted(took)


def p99(took: list[float]) -> float:
    return took[math.ceil(len(took) * 0.99) - 1]


def shown(took: list[float]) -> str:
    return (
        f"{len(took)} requests: median {1000 * median(took):.1f} ms, "
        f"p99 {1000 * p99(took):.1f} ms, worst {1000 * took[-1]:.1f} ms"
    )


@soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("path", ["/metrics", "/livez"])
async def test_scrapers_in_a_loop_leave_other_clients_alone(
    understudy: Understudy, path: str
) -> None:
    seconds = sized(3, full=20)
    quiet = await latencies(understudy, seconds)
    with scraping(understudy.admin_address, scrapers=SCRAPERS, path=path):
        busy = await latencies(understudy, seconds)
        probes = [await probe_seconds(understudy) for _ in range(5)]

    log.info("quiet: %s", shown(quiet))
    log.info("%d scrapers of %s: %s", SCRAPERS, path, shown(busy))
    log.info("slowest probe: %.1f ms", 1000 * max(probes))
    # Wide, because the machine is shared: without pacing and shared pages the median is 20 ms.
    assert median(busy) < median(quiet) + 0.008, (shown(quiet), shown(busy))
    # In three seconds the hundredth part is a handful, which a shared machine delays by itself.
    if IS_SOAKING:
        assert p99(busy) < 2 * p99(quiet) + 0.02, (shown(quiet), shown(busy))
