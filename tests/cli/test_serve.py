"""`understudy serve` as its operators meet it: signals, probes and exit codes."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from proxy.sandbox.ports import LOOPBACK, ReservedPort
from tests.support.certificates import Certificates, new_certificates
from tests.support.http_client import Response, connected, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    scripted_api_server,
)

pytestmark = pytest.mark.timeout(90)  # each starts Python anew, on a machine that may be busy

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as api:
        yield api


class Understudy:
    """A running program, its two ports, and what it says there."""

    def __init__(
        self, process: Process, ports: tuple[int, int], certificates: Certificates
    ) -> None:
        self.process = process
        self.address = (LOOPBACK, ports[0])
        self._admin = f"http://{LOOPBACK}:{ports[1]}"
        self.context = certificates.client_context("alice")

    async def probe(self, page: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self._admin + page) as answer:
            return answer.status, await answer.text()

    async def wait_for(self, page: str, status: int) -> None:
        """Ask until the probe has this status."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    if (await self.probe(page))[0] == status:
                        return
                except aiohttp.ClientError:
                    pass  # it does not listen yet
                assert self.process.returncode is None
                await asyncio.sleep(0.02)

    async def get(self) -> Response:
        async with connected(self.address, self.context) as client:
            return await client.request()

    async def exit_code(self, *, seconds: float = PATIENCE_SECONDS) -> int:
        async with asyncio.timeout(seconds):
            return await self.process.wait()


@asynccontextmanager
async def serving(
    api: ScriptedApiServer, certificates: Certificates, directory: Path, **shutdown: str
) -> AsyncIterator[Understudy]:
    certificate, key = certificates.write_server_files(directory)
    kubeconfig = api.write_kubeconfig(directory, certificates.write_server_ca(directory))
    with ReservedPort() as port, ReservedPort() as admin_port:
        document: dict[str, Any] = {
            "apiVersion": "kube-understudy.io/v1alpha1",
            "kind": "ProxyConfiguration",
            "serving": {
                "address": f"{LOOPBACK}:{port.number}",
                "certificateFile": str(certificate),
                "keyFile": str(key),
                "shutdown": shutdown,
            },
            "authentication": {
                "clientCertificate": {"caFile": str(certificates.write_client_ca(directory))}
            },
            "upstream": {"kubeconfig": str(kubeconfig)},
            "admin": {"address": f"{LOOPBACK}:{admin_port.number}"},
        }
        config = directory / "config.yaml"
        config.write_text(yaml.safe_dump(document))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "proxy", "serve", "--config", config), stderr=DEVNULL
        )
        try:
            yield Understudy(process, (port.number, admin_port.number), certificates)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_makes_it_not_ready_while_it_serves_on_and_a_second_one_ends_it_at_once(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path, number: signal.Signals
) -> None:
    shutdown = {"delay": "100s", "watchWindow": "0s", "gracePeriod": "100s"}
    async with serving(api, certificates, tmp_path, **shutdown) as understudy:
        await understudy.wait_for("/readyz", 200)
        before = await understudy.get()

        understudy.process.send_signal(number)
        async with asyncio.timeout(1):  # the requirement's own
            await understudy.wait_for("/readyz", 503)
        status, page = await understudy.probe("/readyz")
        during = await understudy.get()

        assert (status, "[-]shutdown failed: draining" in page) == (503, True)
        assert await understudy.probe("/livez") == (200, "ok")
        assert (before.status, before.values("connection")) == (200, [])
        assert (during.status, during.values("connection")) == (200, ["close"])
        assert understudy.process.returncode is None
        understudy.process.send_signal(number)
        assert await understudy.exit_code() == 0


async def test_it_exits_inside_the_grace_period_whoever_clings_to_it(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    async def stay_silent(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.reader.read()

    shutdown = {"delay": "0s", "watchWindow": "0s", "gracePeriod": "4s"}
    async with serving(api, certificates, tmp_path, **shutdown) as understudy:
        await understudy.wait_for("/readyz", 200)
        api.script = stay_silent
        async with connected(understudy.address, understudy.context) as clinging:
            await clinging.send(request_bytes())
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not api.requests:  # noqa: ASYNC110 - only what it forwards tells
                    await asyncio.sleep(0.01)

            understudy.process.send_signal(signal.SIGTERM)

            # On a busy machine the interpreter alone takes its time to end.
            assert await understudy.exit_code(seconds=8) == 0
            assert (await clinging.read_response()).status == 502


async def test_an_api_server_that_is_down_makes_it_not_ready_but_keeps_it_alive(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    api.stop_listening()
    async with serving(api, certificates, tmp_path) as understudy:
        await understudy.wait_for("/livez", 200)

        status, page = await understudy.probe("/readyz")

        assert status == 503
        assert "[-]own-identity failed: not known yet" in page
