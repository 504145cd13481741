"""When a stream may end: between two events, as far as one can know who does not read them."""

import pytest

from proxy.core.http.headers import Header, encode_header_lines
from proxy.serving.drain import Drain
from proxy.serving.drain_schedule import DrainSchedule, DrainTimes
from proxy.wire.exchange import ClientExchange
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import status_line
from tests.serving.listening import Place, Receiver, held
from tests.support.http_client import HttpClient, request_bytes

JSON: list[Header] = [(b"Content-Type", b"application/json;stream=watch")]
LOG: list[Header] = [(b"Content-Type", b"text/plain")]
PROTOBUF: list[Header] = [(b"Content-Type", b"application/vnd.kubernetes.protobuf;stream=watch")]
GZIP: list[Header] = [*JSON, (b"Content-Encoding", b"gzip")]
TIMES = DrainTimes(delay_seconds=5, watch_window_seconds=10, grace_seconds=60)


class Stream:
    """One endless answer of a place that drains; each look is the test's to take."""

    def __init__(self, place: Place, exchange: ClientExchange) -> None:
        self.exchange = exchange
        self._clock = place.clock
        self._drain = Drain(place.listener, TIMES, clock=place.clock)
        self._schedule = DrainSchedule(TIMES, place.clock.now)

    def start(self, headers: list[Header], *pieces: bytes) -> None:
        receiver = Receiver()
        receiver.exchange = self.exchange
        self.exchange.mark_stream()
        self.exchange.attach(receiver)
        self.exchange.start_response(200, status_line(200) + encode_header_lines(headers), CHUNKED)
        for piece in pieces:
            self.exchange.send(piece)

    def ends(self, *, after: float = 0.05) -> bool:
        """Look once more after that time, and tell whether the stream is over."""
        self._clock.advance(after)
        if self._drain._is_announcement_over(self._schedule):
            self._drain._is_over(self._schedule)
        return not self.exchange.is_open

    def ends_when_due(self) -> bool:
        """Look until the one stream has long been due, short of the end of the window."""
        assert not self.ends(after=4.9)
        return self.ends(after=5) or self.ends(after=4) or self.ends(after=0.9)


@pytest.fixture
async def stream(place: Place, client: HttpClient) -> Stream:
    place.handler.holds = True
    await client.send(request_bytes())
    await held(place)
    return Stream(place, place.handler.held[0])


@pytest.mark.parametrize(
    ("headers", "pieces"),
    [
        (JSON, [b"{}\n"]),
        (JSON, [b"{", b"}\n"]),
        (JSON, []),
        (LOG, [b"a line\n"]),
        (PROTOBUF, [b"\0\0\0\1x"]),
        (GZIP, [b"\x1f\x8b..."]),
        ([], [b"who knows"]),
    ],
    ids=["event", "event in two pieces", "no event", "log", "protobuf", "gzip", "unknown"],
)
async def test_a_quiet_stream_ends_after_a_whole_event(
    stream: Stream, headers: list[Header], pieces: list[bytes]
) -> None:
    stream.start(headers, *pieces)

    assert stream.ends_when_due()


@pytest.mark.parametrize("headers", [JSON, LOG], ids=["json", "log"])
async def test_half_a_line_keeps_a_stream_open_until_its_window_is_over(
    stream: Stream, headers: list[Header]
) -> None:
    stream.start(headers, b"whole\n", b"half")

    assert not stream.ends_when_due()
    assert stream.ends(after=0.3)


@pytest.mark.parametrize("headers", [JSON, PROTOBUF], ids=["json", "protobuf"])
async def test_a_stream_that_sent_something_since_the_last_look_is_not_ended_in_its_window(
    stream: Stream, headers: list[Header]
) -> None:
    stream.start(headers, b"{}\n")
    assert not stream.ends(after=4.9)
    for _ in range(9):
        stream.exchange.send(b"{}\n")
        assert not stream.ends(after=1)
    stream.exchange.send(b"{}\n")

    assert stream.ends(after=1.2)


async def test_half_a_line_of_a_busy_stream_is_not_its_end_even_when_its_window_is_over(
    stream: Stream,
) -> None:
    stream.start(JSON, b"{}\n")
    assert not stream.ends(after=4.9)
    for _ in range(15):
        stream.exchange.send(b"{}\n{")
        assert not stream.ends(after=1)
    stream.exchange.send(b"}\n")

    assert stream.ends(after=1)


async def test_a_watch_is_not_ended_in_its_first_second(stream: Stream) -> None:
    assert not stream.ends(after=14.9)
    stream.start(JSON, b"{}\n")

    assert not stream.ends(after=0.2)
    assert not stream.ends(after=1)
    assert stream.ends(after=0.2)


@pytest.mark.parametrize("status", [403, 410])
async def test_a_refused_watch_ends_by_itself(stream: Stream, status: int) -> None:
    receiver = Receiver()
    receiver.exchange = stream.exchange
    stream.exchange.mark_stream()
    stream.exchange.attach(receiver)
    lines = status_line(status) + encode_header_lines(JSON)
    stream.exchange.start_response(status, lines, CHUNKED)

    assert not stream.ends_when_due()
    assert not stream.ends(after=20)
