"""Clients whose cable was pulled: TCP alone can tell, and both legs are gone in 90 seconds."""

import asyncio

import pytest

from tests.scenarios.conftest import Connect
from tests.support.dead_peers import go_silent
from tests.support.event_loops import eventually
from tests.support.http_client import request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest
from tests.support.sizes import IS_SOAKING, soak

LIMIT_SECONDS = 90


@soak
@pytest.mark.skipif(not IS_SOAKING, reason="the kernel's probes take a minute")
@pytest.mark.timeout(LIMIT_SECONDS * 2)
@pytest.mark.parametrize("is_idle", [True, False], ids=["idle", "bytes on the way"])
async def test_both_legs_of_a_dead_clients_watch_are_gone_in_time(
    api: ScriptedApiServer, connect: Connect, is_idle: object
) -> None:
    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not connection.reader.at_eof():
            if not is_idle:
                await connection.send(b"2\r\n{}\r\n")
            await asyncio.wait(
                [waiting := asyncio.ensure_future(connection.reader.read(1))], timeout=1
            )
            waiting.cancel()

    api.script = watch
    async with connect() as dead, connect() as slow:
        for client in (dead, slow):
            await client.send(request_bytes(target="/api/v1/pods?watch=1"))
            assert (await client.read_head()).status == 200
        slow.stop_reading()
        go_silent(dead.socket)

        await eventually(lambda: api.open_forwarding == 1, seconds=LIMIT_SECONDS)

        assert api.open_forwarding == 1
