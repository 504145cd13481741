"""Every watch holds a connection upstream, and nobody has to wait for one to end."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from proxy.serving.limits.connections import ConnectionLimits, fit_open_files
from tests.scenarios.conftest import Connect
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)
from tests.support.sizes import sized, soak

WATCHES = sized(120, full=2000)
AT_A_TIME = 40


async def watch_or_echo(connection: ScriptedConnection, request: SeenRequest) -> None:
    if "watch=1" not in request.target:
        await echo(connection, request)
        return
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await connection.reader.read()


async def watch(stack: AsyncExitStack, connect: Connect) -> None:
    client = await stack.enter_async_context(connect())
    await client.send(request_bytes(target="/api/v1/pods?watch=1"))
    assert (await client.read_head()).status == 200


@soak
@pytest.mark.timeout(120)
async def test_with_any_number_of_watches_open_the_next_request_is_answered(
    api: ScriptedApiServer, connect: Connect, client: HttpClient
) -> None:
    # Both ends of every connection are ours.
    fit_open_files(ConnectionLimits(connections=2 * WATCHES), reserved=0)
    api.script = watch_or_echo
    async with AsyncExitStack() as stack:
        for _ in range(WATCHES // AT_A_TIME):
            await asyncio.gather(*(watch(stack, connect) for _ in range(AT_A_TIME)))
        assert api.open_forwarding >= WATCHES

        answers = [
            await client.request(headers=headers) for headers in ([], [("Impersonate-User", "bob")])
        ]

        assert [answer.status for answer in answers] == [200, 200]
        assert api.open_forwarding >= WATCHES
    await eventually(lambda: api.open_forwarding <= 2, seconds=20)
