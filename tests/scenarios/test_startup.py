"""The first moments: clients are let in when there is something to tell them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from ssl import SSLContext

import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from tests.scenarios.conftest import settings_for, status_of
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import connected
from tests.support.scripted_api_server import ScriptedApiServer

Address = tuple[str, int]
Starting = tuple[list[Proxy], Address]


@pytest.fixture
async def starting(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[Starting]:
    """A proxy that has asked who it is, and was not told yet."""
    settings = settings_for(api, certificates, tmp_path)
    started: list[Proxy] = []
    done = asyncio.Event()

    async def run(address: Address) -> None:
        serving = settings.serving.model_copy(update={"address": address})
        async with run_proxy(settings.model_copy(update={"serving": serving})) as proxy:
            started.append(proxy)
            await done.wait()

    with ReservedPort() as port:
        address = (LOOPBACK, port.number)
        api.review_gate.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(run(address))
            await eventually(lambda: api.under_review)
            yield started, address
            api.review_gate.set()
            done.set()


async def test_nobody_is_let_in_to_be_turned_away_before_our_own_name_is_known(
    api: ScriptedApiServer,
    starting: Starting,
    context_of: Callable[[str | None], SSLContext],
) -> None:
    started, address = starting
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(*address)
    assert not started

    api.review_gate.set()
    await eventually(lambda: started)

    async with connected(address, context_of("alice")) as client:
        assert (await client.request()).status == 200


async def test_an_api_server_that_does_not_tell_keeps_nobody_waiting_for_long(
    starting: Starting,
    context_of: Callable[[str | None], SSLContext],
) -> None:
    started, address = starting

    await eventually(lambda: started, seconds=20)

    async with connected(address, context_of("alice")) as client:
        assert status_of(await client.request())[0] == 503
