"""Responses that make no progress: found by what the client takes, and only those."""

import pytest

from proxy.serving.exchange import ServerExchange
from proxy.serving.exchange_transport import ConnectionReuse
from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.limits.response_progress import ResponseProgress
from proxy.wire.exchange import Peer
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import UNPARSED_HEAD, status_line
from proxy.wire.tcp import SentBytes
from tests.serving.listening import held, listening
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import connected, request_bytes

TIMEOUT = 60.0
KIB = 1024


class Wire:
    """A connection whose client takes as much as the test says."""

    is_write_blocked = False

    def __init__(self) -> None:
        self.exchange: ServerExchange | None = ServerExchange(self, UNPARSED_HEAD, Peer(""))
        self.sent: SentBytes | None = SentBytes(0, 0)

    def sent_bytes(self) -> SentBytes | None:
        return self.sent

    def write(self, data: bytes) -> None:
        """Send nothing."""

    def deliver_body(self) -> None:
        raise NotImplementedError

    pause_body = resume_body = release_idle_memory = open_tunnel = deliver_body

    def caller_authenticated(self, *, is_anonymous: bool) -> None:
        raise NotImplementedError

    def exchange_ended(self, ending: ConnectionReuse) -> None:
        self.exchange = None


def started() -> Wire:
    """Return a connection whose response has begun."""
    wire = Wire()
    assert wire.exchange is not None
    wire.exchange.start_response(200, status_line(200), CHUNKED)
    return wire


def stalls(wire: Wire, *taken: tuple[float, int, int]) -> bool:
    """Tell whether a client stalls that has acknowledged so much at such times."""
    progress = ResponseProgress()
    found = []
    for now, acknowledged, pending in taken:
        wire.sent = SentBytes(acknowledged, pending)
        found = progress.stalled([wire], now, timeout_seconds=TIMEOUT)
    return found == [wire]


def test_f6_a_client_that_takes_nothing_stalls_when_its_time_is_over() -> None:
    assert not stalls(started(), (0, 0, 300 * KIB), (59, 0, 300 * KIB))
    assert stalls(started(), (0, 0, 300 * KIB), (60, 0, 300 * KIB))


def test_f6_a_client_that_takes_a_byte_now_and_then_stalls() -> None:
    trickle = [(float(second), second, 300 * KIB) for second in range(61)]

    assert stalls(started(), *trickle)


def test_a_client_that_takes_64_kib_in_time_does_not_stall() -> None:
    slow = [(second * 59.0, second * 64 * KIB, 300 * KIB) for second in range(20)]

    assert not stalls(started(), *slow)


def test_a_client_that_takes_all_that_was_pending_does_not_stall() -> None:
    """An API server that sends little: each time something new is pending."""
    little = [(second * 59.0, second * 100, 100) for second in range(20)]

    assert not stalls(started(), *little)


def test_a_client_with_nothing_pending_does_not_stall() -> None:
    assert not stalls(started(), (0, 0, 0), (1000, 0, 0))


def test_a_response_that_has_not_begun_does_not_stall() -> None:
    assert not stalls(Wire(), (0, 0, 100), (1000, 0, 100))


def test_a_long_running_request_does_not_stall() -> None:
    wire = started()
    assert wire.exchange is not None
    wire.exchange.mark_long_running()

    assert not stalls(wire, (0, 0, 100), (1000, 0, 100))


def test_a_connection_whose_socket_tells_nothing_does_not_stall() -> None:
    wire = started()
    wire.sent = None
    progress = ResponseProgress()

    assert [progress.stalled([wire], now, timeout_seconds=TIMEOUT) for now in (0.0, 100.0)] == [
        [],
        [],
    ]


@pytest.mark.parametrize("is_long_running", [False, True])
async def test_f6_a_listener_cuts_off_a_client_that_reads_nothing(
    certificates: Certificates, is_long_running: object
) -> None:
    limits = ConnectionLimits(response_progress_seconds=TIMEOUT)
    async with (
        listening(certificates, limits) as place,
        connected(place.address, certificates.client_context()) as client,
    ):
        place.handler.holds = True
        await client.send(request_bytes())
        await held(place)
        client.stop_reading()
        exchange = place.handler.held[0]
        if is_long_running:
            exchange.mark_long_running()
        exchange.start_response(200, status_line(200), CHUNKED)
        exchange.send(b"x" * 30_000_000)
        await eventually(lambda: place.listener.connections[0].is_write_blocked)

        for _ in range(2):
            # What the kernel takes meanwhile is progress: it is looked at until that has ended.
            for _ in range(20):
                place.listener.close_expired()
            place.clock.advance(TIMEOUT + 1)
        place.listener.close_expired()

        if is_long_running:
            assert exchange.is_open
        else:
            await eventually(lambda: not exchange.is_open)
            assert [outcome.is_complete for outcome in place.handler.outcomes] == [False]
        assert place.listener.stalled_responses == (0 if is_long_running else 1)
