"""`understudy serve` as its operators meet it: signals, probes and exit codes."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.certificates import Certificates, new_certificates
from tests.support.http_client import connected, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    scripted_api_server,
)
from tests.support.serve_process import PATIENCE_SECONDS, serving

pytestmark = pytest.mark.timeout(90)  # each starts Python anew, on a machine that may be busy


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as api:
        yield api


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
        assert "[-]proxy-identity failed: the proxy's user names are not known yet" in page
