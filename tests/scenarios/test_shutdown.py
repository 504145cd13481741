"""Shutdown, as clients and the API server see it: nobody is lied to, and nothing is left behind."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from ssl import SSLContext

import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.settings.serving import ShutdownSettings
from tests.scenarios.conftest import Connect, settings_for, status_of, wait_until_it_admits
from tests.scenarios.test_tunnels import switch_and_echo, upgrade
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient, connected, request_bytes
from tests.support.scripted_api_server import (
    Script,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

WATCH = request_bytes(target="/api/v1/pods?watch=1")
LOG = "/api/v1/namespaces/a/pods/b/log"
JSON_EVENT = b'{"type":"ADDED","object":{}}\n'
# The last two seconds of a grace period are for closing itself.
SHORT_GRACE = {"delay": "0s", "watchWindow": "500ms", "gracePeriod": "3s"}
LONG_GRACE = {"delay": "0s", "watchWindow": "500ms", "gracePeriod": "60s"}


@pytest.fixture
def shutdown_settings() -> dict[str, str]:
    return LONG_GRACE


@pytest.fixture
async def running(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], SSLContext],
    shutdown_settings: dict[str, str],
) -> AsyncIterator[Proxy]:
    """A proxy that can be told to drain, and stops at once when the test is over."""
    settings = settings_for(api, certificates, tmp_path)
    shutdown = ShutdownSettings.model_validate(shutdown_settings)
    serving = settings.serving.model_copy(update={"shutdown": shutdown})
    log = settings.audit.log.model_copy(update={"path": tmp_path / "audit.log"})
    audit = settings.audit.model_copy(update={"log": log})
    settings = settings.model_copy(update={"serving": serving, "audit": audit})
    async with run_proxy(settings) as running:
        await wait_until_it_admits(running.address, context_of("early"))
        api.requests.clear()
        yield running


@pytest.fixture
def connect(running: Proxy, context_of: Callable[[str | None], SSLContext]) -> Connect:
    def connect_as(user: str | None = "alice") -> AbstractAsyncContextManager[HttpClient]:
        return connected(running.address, context_of(user))

    return connect_as


@contextlib.asynccontextmanager
async def draining(running: Proxy) -> AsyncIterator["asyncio.Task[None]"]:
    """Tell the proxy to drain, wait until nobody new is accepted, and see it end in time."""
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(running.drain.run())
        await eventually(lambda: running._listener._server is None)
        yield task


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def stream_head(content_type: str = "application/json") -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()


def watch_that_sends(*pieces: bytes, content_type: str = "application/json") -> Script:
    """Script a watch that sends each piece as it is, and then waits."""

    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(stream_head(content_type) + b"".join(pieces))
        await connection.reader.read()

    return watch


async def looks(count: int = 5) -> None:
    """Give the drain a few looks; each takes 50 ms."""
    for _ in range(count):
        await asyncio.sleep(0.05)


async def test_a_watch_ends_well_after_an_event_and_upstream_is_left(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    api.script = watch_that_sends(chunk(JSON_EVENT), chunk(JSON_EVENT))
    async with connect() as client:
        await client.send(WATCH)
        await client.read_head()

        async with draining(running):
            body = await client._read_chunks()

            assert body == JSON_EVENT * 2
            assert await client.read_to_end() == b""
            assert client.ended_with_goodbye
            await eventually(lambda: api.open_forwarding == 0, seconds=1)


async def test_an_idle_watch_and_a_followed_log_end_well_too(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    api.script = watch_that_sends()
    async with connect() as watcher, connect() as reader:
        await watcher.send(WATCH)
        await watcher.read_head()
        await reader.send(request_bytes(target=f"{LOG}?follow=true"))
        await reader.read_head()

        async with draining(running):
            assert await watcher._read_chunks() == b""
            assert await reader._read_chunks() == b""


HALVES = [
    (b"1d\r\n" + JSON_EVENT[:10], JSON_EVENT[10:] + b"\r\n"),
    (b"1d\r\n" + JSON_EVENT, b"\r\n"),
    (chunk(JSON_EVENT) + b"1", b"d\r\n" + JSON_EVENT + b"\r\n"),
]


async def test_no_stream_ends_in_the_middle_of_a_chunk(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    goes_on = asyncio.Event()

    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        first, second = HALVES[int(request.target[-1])]
        await connection.send(stream_head() + first)
        await goes_on.wait()
        await connection.send(second)
        await connection.reader.read()

    api.script = watch
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect()) for _ in HALVES]
        for number, client in enumerate(clients):
            await client.send(request_bytes(target=f"/api/v1/pods?watch=1&timeoutSeconds={number}"))
            await client.read_head()

        async with draining(running):
            await looks(30)  # window and first second are over by then
            assert api.open_forwarding == len(HALVES)
            goes_on.set()

            bodies = [await client._read_chunks() for client in clients]

    assert bodies == [JSON_EVENT, JSON_EVENT, JSON_EVENT * 2]


async def test_a_watch_that_is_never_quiet_ends_between_two_events(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(stream_head())
        while True:
            for piece in (JSON_EVENT[:7], JSON_EVENT[7:], JSON_EVENT * 3):
                await connection.send(chunk(piece))
                await asyncio.sleep(0.001)

    api.script = watch
    async with connect() as client:
        await client.send(WATCH)
        await client.read_head()

        async with draining(running):
            body = await client._read_chunks()

    assert body.replace(JSON_EVENT, b"") == b""
    assert body


async def test_a_watch_whose_answer_has_not_begun_is_waited_for(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    goes_on = asyncio.Event()

    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await goes_on.wait()
        await connection.send(stream_head() + chunk(JSON_EVENT))
        await connection.reader.read()

    api.script = watch
    async with connect() as client:
        await client.send(WATCH)
        await eventually(lambda: api.requests)

        async with draining(running):
            await looks(5)
            assert api.open_forwarding == 1
            goes_on.set()
            answer = await client.read_response()

    assert (answer.status, answer.body) == (200, JSON_EVENT)
    assert answer.values("connection") == ["close"]


@pytest.mark.parametrize("shutdown_settings", [{**LONG_GRACE, "watchWindow": "3s"}])
async def test_watches_do_not_end_all_at_once(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    api.script = watch_that_sends(chunk(JSON_EVENT))
    ended: list[float] = []
    clock = asyncio.get_running_loop().time

    async def watch(client: HttpClient) -> None:
        assert await client._read_chunks() == JSON_EVENT
        ended.append(clock())

    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect()) for _ in range(20)]
        for client in clients:
            await client.send(WATCH)
            await client.read_head()

        async with draining(running), asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(watch(client))

    # A busy machine may bunch them; how evenly they are due is the schedule's to show.
    assert ended[-1] - ended[0] > 0.5


async def test_an_old_connection_is_told_to_come_again_and_nothing_is_forwarded(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    release = asyncio.Event()

    async def hold(connection: ScriptedConnection, request: SeenRequest) -> None:
        if "held" in request.target:
            await release.wait()
        await echo(connection, request)

    api.script = hold
    async with connect() as idle, connect() as busy:
        assert (await idle.request()).status == 200
        await busy.send(request_bytes(target="/api/v1/held"))
        await eventually(lambda: len(api.requests) == 2)

        async with draining(running):
            late = await idle.request("POST", "/api/v1/namespaces", body=b"{}")

            assert status_of(late) == (429, "TooManyRequests", 429)
            assert late.values("retry-after") == ["1"]
            assert late.values("connection") == ["close"]
            assert len(api.requests) == 2
            release.set()
            assert (await busy.read_response()).status == 200


async def test_what_is_under_way_is_waited_for_and_says_that_it_was_the_last(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    release = asyncio.Event()

    async def hold(connection: ScriptedConnection, request: SeenRequest) -> None:
        await release.wait()
        await echo(connection, request)

    api.script = hold
    async with connect() as client:
        await client.send(request_bytes("POST", body=b"{}"))
        await eventually(lambda: api.requests)

        async with draining(running) as task:
            await looks()
            assert not task.done()
            release.set()
            answer = await client.read_response("POST")

    assert answer.status == 200
    assert answer.values("connection") == ["close"]


@pytest.mark.parametrize("shutdown_settings", [SHORT_GRACE])
async def test_who_gets_no_answer_in_time_is_told_so_and_never_to_repeat(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    async def stay_silent(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.reader.read()

    api.script = stay_silent
    async with connect() as client:
        await client.send(request_bytes("POST"))
        await eventually(lambda: api.requests)

        async with draining(running):
            answer = await client.read_response("POST")

    assert status_of(answer) == (502, "InternalError", 502)
    assert answer.values("retry-after") == []
    await eventually(lambda: api.open_forwarding == 0, seconds=1)


FINITE = [LOG, f"{LOG}?follow=false", "/api/v1/namespaces/a/pods/b/proxy/?watch=1", "/api/v1/pods"]


@pytest.mark.parametrize("shutdown_settings", [{**SHORT_GRACE, "gracePeriod": "4s"}])
async def test_an_answer_with_an_end_of_its_own_is_never_passed_off_as_complete(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    api.script = watch_that_sends(chunk(b"half of it\n"), content_type="text/plain")
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect()) for _ in FINITE]
        for client, target in zip(clients, FINITE, strict=True):
            await client.send(request_bytes(target=target))
            await client.read_head()

        async with draining(running):
            for client in clients:
                with pytest.raises(Cut) as cut:
                    await client._read_chunks()
                assert cut.value.received == b"half of it\n"
                assert not client.ended_with_goodbye


@pytest.mark.parametrize("shutdown_settings", [SHORT_GRACE])
async def test_a_tunnel_works_until_the_very_end(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    api.script = switch_and_echo
    async with connect() as client:
        await client.send(upgrade("SPDY/3.1"))
        await client.read_head()
        assert await client.read_exactly(6) == b"hello "

        async with draining(running) as task:
            await looks()
            await client.send(b"still there")
            assert await client.read_exactly(11) == b"still there"
            assert not task.done()
        assert api.open_forwarding == 1
        await running.stop()

        assert await client.read_to_end() == b""
        assert client.ended_with_goodbye
        await eventually(lambda: api.open_forwarding == 0, seconds=1)


async def test_a_second_signal_ends_the_wait(
    api: ScriptedApiServer, running: Proxy, connect: Connect
) -> None:
    api.script = switch_and_echo
    async with connect() as client:
        await client.send(upgrade("SPDY/3.1"))
        await client.read_head()

        async with draining(running) as task:
            await looks(2)
            assert not task.done()
            running.drain.skip_grace_period()


async def test_every_exchange_is_in_the_audit_trail_when_all_is_over(
    api: ScriptedApiServer, running: Proxy, connect: Connect, tmp_path: Path
) -> None:
    api.script = watch_that_sends(chunk(JSON_EVENT))
    async with connect() as watcher, connect() as late:
        await watcher.send(WATCH)
        await watcher.read_head()
        api.script = echo
        assert (await late.request()).status == 200

        async with draining(running):
            assert (await late.request("POST", "/api/v1/late")).status == 429
            assert await watcher._read_chunks() == JSON_EVENT
        await running.stop()

    lines = (tmp_path / "audit.log").read_text().splitlines()
    seen = [
        (event["requestURI"], event["responseStatus"]["code"]) for event in map(json.loads, lines)
    ]
    assert seen[-3:] == [
        ("/api/v1/pods", 200),
        ("/api/v1/late", 429),
        ("/api/v1/pods?watch=1", 200),
    ]
