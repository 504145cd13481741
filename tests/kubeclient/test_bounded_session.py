"""Bounded client sessions: what a peer may send for one call, and what is read of it."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest

from proxy.kubeclient.bounded_session import ResponseTooLarge, bounded_session

EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\n\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n"
ENOUGH = 100_000


class Peer:
    """A server that responds to the n-th request with the n-th bytes, whatever these are."""

    def __init__(self, responses: Sequence[bytes]) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.url = ""
        self._responses = iter(responses)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(next(self._responses))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def peer_with(*responses: bytes) -> AsyncIterator[Peer]:
    peer = Peer(responses)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    async with server:
        peer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield peer


def response(body: bytes, *lines: bytes) -> bytes:
    head = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def session_of(response_bytes: int = ENOUGH) -> aiohttp.ClientSession:
    return bounded_session(response_bytes=response_bytes, connections=0)


async def read(session: aiohttp.ClientSession, peer: Peer) -> bytes:
    async with session.get(peer.url) as answer:
        return await answer.read()


async def test_response_at_the_bound_is_read_for_every_call_of_a_connection() -> None:
    whole = response(b"a" * 1000)

    async with peer_with(whole, whole, whole) as peer, session_of(len(whole)) as session:
        assert [await read(session, peer) for _ in range(3)] == [b"a" * 1000] * 3
        assert peer.connections == 1


async def test_response_above_the_bound_is_an_error() -> None:
    whole = response(b"a" * 1000)

    async with peer_with(whole) as peer, session_of(len(whole) - 1) as session:
        with pytest.raises(ResponseTooLarge, match="the response is too large"):
            await read(session, peer)


async def test_chunked_response_above_the_bound_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async with peer_with(head + b"1\r\na\r\n" * 500) as peer, session_of(1000) as session:
        with pytest.raises(ResponseTooLarge, match="the response is too large"):
            await read(session, peer)


async def test_head_above_the_bound_is_an_error() -> None:
    lines = [b"A: %b" % (b"a" * 500)] * 4

    async with peer_with(response(b"", *lines)) as peer, session_of(1000) as session:
        with pytest.raises(ResponseTooLarge):
            await read(session, peer)


async def test_head_within_the_bound_is_a_response_although_the_body_is_too_large() -> None:
    async with (
        peer_with(response(b"a" * 5000)) as peer,
        session_of(1000) as session,
        session.get(peer.url) as answer,
    ):
        assert answer.status == 200
        with pytest.raises(ResponseTooLarge):
            await answer.read()


async def test_five_informational_responses_precede_a_response_at_most() -> None:
    responses = [EARLY_HINTS * 5 + response(b"ok"), EARLY_HINTS * 6]

    async with peer_with(*responses) as peer, session_of() as session:
        assert await read(session, peer) == b"ok"
        with pytest.raises(ResponseTooLarge, match="too many informational responses"):
            await read(session, peer)


async def test_response_without_a_request_does_not_answer_the_next_call() -> None:
    async with peer_with(response(b"one") + response(b"smuggled"), response(b"two")) as peer:
        async with session_of() as session:
            assert await read(session, peer) == b"one"
            assert await read(session, peer) == b"two"
        assert peer.connections == 2


async def test_response_on_an_idle_connection_closes_the_connection() -> None:
    writers: list[asyncio.StreamWriter] = []
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response(b"one"))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, session_of() as session:
        async with session.get(url) as answer:
            assert await answer.read() == b"one"
        assert not closed.is_set()

        writers[0].write(response(b"smuggled"))

        async with asyncio.timeout(2):
            await closed.wait()


async def test_switch_of_protocols_is_an_error() -> None:
    async with peer_with(SWITCHING) as peer, session_of() as session:
        with pytest.raises(ResponseTooLarge, match="a response without a request"):
            await read(session, peer)


async def test_error_of_one_call_leaves_the_session_usable() -> None:
    responses = [response(b"a" * 5000), response(b"ok")]

    async with peer_with(*responses) as peer, session_of(1000) as session:
        with pytest.raises(ResponseTooLarge):
            await read(session, peer)
        assert await read(session, peer) == b"ok"


async def test_nothing_is_decompressed() -> None:
    packed = gzip.compress(b"a" * 100_000)
    whole = response(packed, b"Content-Encoding: gzip")

    async with peer_with(whole) as peer, session_of() as session:
        assert await read(session, peer) == packed
    assert b"Accept-Encoding: identity\r\n" in peer.heads[0]


async def test_no_cookie_is_kept() -> None:
    baked = response(b"", b"Set-Cookie: session=1; Path=/")

    async with peer_with(baked, response(b"")) as peer, session_of() as session:
        for _ in range(2):
            await read(session, peer)
    assert len(peer.heads) == 2
    assert not any(b"Cookie" in head for head in peer.heads)


async def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async with peer_with(response(b"direct")) as peer, session_of() as session:
        assert await read(session, peer) == b"direct"


@pytest.mark.parametrize("connections", [0, 3])
async def test_connections_and_timeout_are_those_that_are_given(connections: int) -> None:
    timeout = aiohttp.ClientTimeout(total=7)

    async with bounded_session(
        response_bytes=1, connections=connections, timeout=timeout
    ) as session:
        assert session.connector is not None
        assert session.connector.limit == connections
        assert session.timeout == timeout
