"""One connection to the API server: however an answer ends, nothing of it stays behind."""

import asyncio
import contextlib
import itertools
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import pytest

from proxy.core.http.headers import NO_HEADERS
from proxy.upstream import connection as connection_module
from proxy.upstream.connection import MAX_INTERIM_HEADS, UpstreamConnection
from proxy.upstream.endpoints import Endpoint
from proxy.wire.exchange import ANY_STATUS
from proxy.wire.http1.body import NO_BODY, BodyFraming, BodyKind
from proxy.wire.http1.message import RequestHead, ResponseHead
from proxy.wire.http1.raw_chunks import RawChunkReader
from proxy.wire.http1.response_parser import CachingResponseParser
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LARGE = 8 * 1024 * 1024


class Answer:
    """A receiver that writes down what it is told."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.framing: BodyFraming | RawChunkReader = NO_BODY
        self.body = b""
        self.ends: list[str] = []

    def response_started(
        self,
        head: ResponseHead,
        framing: BodyFraming | RawChunkReader,
        payload: bytes,
        *,
        is_complete: bool,
    ) -> None:
        self.statuses.append(head.status)
        self.framing = framing
        self.body += payload
        if is_complete:
            self.ends.append("complete")

    def response_data(self, payload: bytes) -> None:
        self.body += payload

    def response_ended(self) -> None:
        self.ends.append("complete")

    def response_failed(self, *, nothing_came: bool) -> None:
        self.ends.append("nothing came" if nothing_came else "broken off")

    def pause_request(self) -> None:
        pass

    def resume_request(self) -> None:
        pass


class Line:
    """A connection to a server that plays a script, and what has become of it."""

    def __init__(self) -> None:
        self.idle: list[UpstreamConnection] = []
        self.lost: list[UpstreamConnection] = []
        self.answer = Answer()
        self.raw_chunks_below = 0
        self.connection: UpstreamConnection

    def send(self, method: bytes = b"GET", *, length: int | None = None) -> None:
        framing = NO_BODY if length is None else BodyFraming(BodyKind.LENGTH, length)
        request = RequestHead(method, b"/", 1, NO_HEADERS, framing, keep_alive=True)
        head = b"%b / HTTP/1.1\r\n\r\n" % method
        self.connection.send_head(
            head,
            b"id",
            request=request,
            receiver=self.answer,
            raw_chunks_below=self.raw_chunks_below,
        )


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@contextlib.asynccontextmanager
async def connected_to(script: Script, certificates: Certificates) -> AsyncIterator[Line]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            await script(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(
        serve, "127.0.0.1", 0, ssl=certificates.server_context(), limit=1024 * 1024
    )
    port = server.sockets[0].getsockname()[1]
    endpoint = Endpoint("127.0.0.1", port, "127.0.0.1", certificates.client_context())
    line = Line()
    line.connection = UpstreamConnection(
        endpoint, parser=CachingResponseParser(), on_idle=line.idle.append, on_lost=line.lost.append
    )
    protocol = line.connection.as_protocol
    await asyncio.get_running_loop().create_connection(protocol, "127.0.0.1", port)
    await line.connection.ready
    try:
        yield line
    finally:
        line.connection.abandon()
        server.close()
        await eventually(lambda: line.lost)


def answer_and_read_no_more(done: asyncio.Event) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        cast("asyncio.Transport", writer.transport).pause_reading()
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await done.wait()

    return script


async def test_half_a_body_is_not_waited_for_once_the_answer_is_there(
    certificates: Certificates,
) -> None:
    done = asyncio.Event()
    async with connected_to(answer_and_read_no_more(done), certificates) as line:
        line.send(b"PUT", length=2 * LARGE)
        line.connection.send_body(b"x" * LARGE)

        await eventually(lambda: line.answer.ends)

        assert (line.answer.statuses, line.answer.body) == ([413], b"no")
        assert line.answer.ends == ["complete"]
        await eventually(lambda: line.lost == [line.connection])
        assert line.idle == []
        done.set()


async def test_who_never_takes_the_rest_of_a_body_is_cut_off_in_the_end(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_FINISH_SECONDS", 0.2)
    done = asyncio.Event()
    async with connected_to(answer_and_read_no_more(done), certificates) as line:
        line.send(b"PUT", length=LARGE)
        line.connection.send_body(b"x" * LARGE)
        line.connection.end_body()

        await eventually(lambda: line.lost == [line.connection])

        assert line.answer.ends == ["complete"]
        assert line.idle == []
        done.set()


INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 2
BY_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


@pytest.mark.parametrize("piece", [1, 7, 60, 1000, 1_000_000])
@pytest.mark.parametrize("answer", [BY_LENGTH, INTERIM + BY_LENGTH, IN_CHUNKS, INTERIM + IN_CHUNKS])
async def test_an_answer_may_come_in_any_pieces(
    certificates: Certificates, answer: bytes, piece: int
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(answer), piece):
            writer.write(answer[start : start + piece])
            await asyncio.sleep(0)
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.send()
        line.connection.end_body()
        await eventually(lambda: line.answer.ends)

        assert (line.answer.statuses, line.answer.body) == ([200], b"hello")
        await eventually(lambda: line.idle == [line.connection])


ONE_INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"


@pytest.mark.parametrize("at_once", [1, 20, 1000], ids=lambda count: f"{count} at once")
async def test_an_answer_with_too_many_interim_heads_is_broken_off(
    certificates: Certificates, at_once: int
) -> None:
    """However they come: one hostile backend must not keep the event loop busy without an end."""
    sent = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        while sent < 1_000_000:
            writer.write(ONE_INTERIM * at_once)
            sent += at_once
            await writer.drain()
            await asyncio.sleep(0)

    async with connected_to(script, certificates) as line:
        line.send()
        await eventually(lambda: line.answer.ends)

        assert line.answer.ends == ["broken off"]
        assert line.answer.statuses == []
        await eventually(lambda: line.lost == [line.connection])
        assert line.idle == []


async def test_interim_heads_are_counted_for_each_answer_alone(certificates: Certificates) -> None:
    answers = 3

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(answers):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ONE_INTERIM * MAX_INTERIM_HEADS)
            await writer.drain()
            await asyncio.sleep(0.01)  # so that what follows is read for itself
            writer.write(BY_LENGTH)
        await reader.read()

    async with connected_to(script, certificates) as line:
        for number in range(1, answers + 1):
            line.send()
            await eventually(lambda number=number: len(line.answer.ends) == number)  # type: ignore[misc]

        assert line.answer.statuses == [200] * answers
        assert line.answer.ends == ["complete"] * answers


@pytest.mark.parametrize("piece", [1, 7, 60, 1000])
@pytest.mark.parametrize("status", [b"200 OK", b"500 Internal Server Error"])
async def test_chunks_keep_their_frames_for_who_takes_them(
    certificates: Certificates, piece: int, status: bytes
) -> None:
    wire = IN_CHUNKS.replace(b"200 OK", status)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(wire), piece):
            writer.write(wire[start : start + piece])
            await asyncio.sleep(0.001)
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.raw_chunks_below = ANY_STATUS
        line.send()
        await eventually(lambda: line.answer.ends)

        assert line.answer.body == b"2\r\nhe\r\n3\r\nllo\r\n"
        assert isinstance(line.answer.framing, RawChunkReader)
        assert line.answer.framing.payload_bytes == 5
        await eventually(lambda: line.idle == [line.connection])


@pytest.mark.parametrize(
    ("status", "below", "is_raw"),
    [
        (b"200 OK", 0, False),
        (b"200 OK", 400, True),
        (b"404 Not Found", 400, False),
        (b"404 Not Found", ANY_STATUS, True),
        (b"401 Unauthorized", ANY_STATUS, False),
        (b"403 Forbidden", ANY_STATUS, False),
    ],
)
async def test_chunks_lose_their_frames_for_who_reads_the_payload(
    certificates: Certificates, status: bytes, below: int, is_raw: object
) -> None:
    """A 401 and a 403 are read: they may be held back."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(IN_CHUNKS.replace(b"200 OK", status))
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.raw_chunks_below = below
        line.send()
        await eventually(lambda: line.answer.ends)

        assert isinstance(line.answer.framing, RawChunkReader) is is_raw
        assert line.answer.body == (b"2\r\nhe\r\n3\r\nllo\r\n" if is_raw else b"hello")


@pytest.mark.parametrize("length", [100, 200_000, 3_000_000])
async def test_a_body_in_chunks_is_the_same_whatever_is_read_at_once(
    certificates: Certificates, length: int
) -> None:
    """What is read at once is taken in steps, and no step is another's."""
    body = random.Random(length).randbytes(length)
    sizes = itertools.cycle((1, 70_000, 16_384, 400_000, 5))

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        position = 0
        while position < length:
            chunk = body[position : position + next(sizes)]
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            position += len(chunk)
        writer.write(b"0\r\n\r\n")
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.send()
        await eventually(lambda: line.answer.ends)

        assert bytes(line.answer.body) == body
        assert line.answer.ends == ["complete"]
        await eventually(lambda: line.idle == [line.connection])


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"403 Forbidden"])
@pytest.mark.parametrize("answer", [BY_LENGTH, IN_CHUNKS])
async def test_what_may_be_about_us_is_told_to_who_can_hold_it_back(
    certificates: Certificates, answer: bytes, status: bytes
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer.replace(b"200 OK", status))
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.send()
        await eventually(lambda: line.answer.ends)

        assert line.answer.statuses == [int(status[:3])]
        assert line.answer.body == b"hello"


@pytest.mark.parametrize("answer", [BY_LENGTH, IN_CHUNKS])
async def test_the_answer_to_a_head_request_has_no_body_whatever_it_announces(
    certificates: Certificates, answer: bytes
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer[: answer.index(b"\r\n\r\n") + 4])
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.send(b"HEAD")
        await eventually(lambda: line.answer.ends)

        assert (line.answer.statuses, line.answer.body) == ([200], b"")
        assert line.answer.ends == ["complete"]
        await eventually(lambda: line.idle == [line.connection])


@pytest.mark.parametrize("broken", [b"x\r\nhello\r\n", b"5\r\nhello!!", b"5\nhello\r\n"])
async def test_chunks_that_are_broken_at_once_break_the_answer_off(
    certificates: Certificates, broken: bytes
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(IN_CHUNKS[: IN_CHUNKS.index(b"\r\n\r\n") + 4] + broken)
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.send()
        await eventually(lambda: line.answer.ends)

        assert (line.answer.statuses, line.answer.body) == ([200], b"")
        assert line.answer.ends == ["broken off"]
        assert line.idle == []


async def test_after_chunks_nobody_takes_what_comes_without_a_request(
    certificates: Certificates,
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(IN_CHUNKS + BY_LENGTH)
        await reader.read()

    async with connected_to(script, certificates) as line:
        line.send()
        await eventually(lambda: line.lost == [line.connection])

        assert (line.answer.statuses, line.answer.body) == ([200], b"hello")
        assert line.answer.ends == ["complete"]
        assert line.idle == []


async def test_a_large_head_in_many_pieces_costs_little(certificates: Certificates) -> None:
    """Some 0.1 s was seen, and 2 s when every piece copied all that had come before it."""
    done = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()

    async with connected_to(say_nothing, certificates) as line:
        line.send()
        started = time.thread_time()

        line.connection.plaintext_received(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(100_000):
            line.connection.plaintext_received(b"yyyyyyyyy")
        line.connection.plaintext_received(b"\r\n\r\n")

        assert time.thread_time() - started < 1
        assert line.answer.statuses == [200]
        done.set()


@pytest.mark.parametrize("sizes", [(1, 1), (1, 40_000, 1), (10_000, 10_000, 1, 70_000, 5)])
async def test_whatever_is_written_in_one_turn_arrives_in_order_though_it_is_closed_at_once(
    certificates: Certificates, sizes: tuple[int, ...]
) -> None:
    """All of it waits for the end of the turn, or until it is very much; nothing overtakes."""
    arrived = bytearray()
    done = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.extend(await reader.read(-1))
        done.set()

    pieces = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    async with connected_to(script, certificates) as line:
        line.send(b"PUT", length=sum(sizes))
        for piece in pieces:
            line.connection.send_body(piece)
        line.connection.end_body()
        is_sending = line.connection.is_sending
        line.connection.close()

        await asyncio.wait_for(done.wait(), 5)

    assert is_sending
    assert bytes(arrived) == b"PUT / HTTP/1.1\r\n\r\n" + b"".join(pieces)


@pytest.mark.parametrize("sizes", [(300_000, 1, 300_000), (1, 200_000, 1, 200_000), (1,) * 5000])
async def test_very_much_that_is_written_in_one_turn_arrives_in_order(
    certificates: Certificates, sizes: tuple[int, ...]
) -> None:
    arrived: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.append(await reader.readexactly(sum(sizes)))
        await reader.read()

    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    async with connected_to(script, certificates) as line:
        line.send(b"PUT", length=sum(sizes))
        for piece in pieces:
            line.connection.send_body(piece)
        line.connection.end_body()
        await eventually(lambda: arrived)

        assert arrived == [b"".join(pieces)]
        assert not line.connection.is_sending


async def test_nothing_is_sent_any_more_once_it_is_abandoned(certificates: Certificates) -> None:
    arrived: list[bytes] = []
    done = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            arrived.append(await reader.read(-1))
        finally:
            done.set()

    async with connected_to(script, certificates) as line:
        line.send()
        line.connection.abandon()

        await asyncio.wait_for(done.wait(), 5)

    assert b"".join(arrived) == b""
