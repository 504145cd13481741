"""A listener with a handler that does what the test wants."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from OpenSSL import SSL

from proxy.core.errors import StatusError
from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedMemoryBudget
from proxy.serving.listener import Listener
from proxy.wire.exchange import ClientExchange, ExchangeOutcome
from tests.support.certificates import Certificates
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually

LIMITS = ConnectionLimits(
    handshake_seconds=10, head_seconds=30, idle_seconds=90, unauthenticated_idle_seconds=15
)


class Handler:
    """Answers each request with its target at once, unless told to hold it or to break it off."""

    def __init__(self) -> None:
        self.authenticates = True
        self.holds = False
        self.breaks = False
        self.body: bytes | None = None
        self.held: list[ClientExchange] = []
        self.targets: list[bytes] = []
        self.refusals: list[int] = []
        self.outcomes: list[ExchangeOutcome] = []

    def handle(self, exchange: ClientExchange) -> None:
        self.targets.append(exchange.request.target)
        exchange.on_complete(self.outcomes.append)
        if self.authenticates:
            exchange.mark_authenticated(is_anonymous=False)
        if self.holds:
            self.held.append(exchange)
        elif self.breaks:
            exchange.abort()
        else:
            exchange.send_response(200, [], self.body or exchange.request.target)

    def reject(self, exchange: ClientExchange, error: StatusError) -> None:
        self.refusals.append(error.code)
        exchange.send_response(error.code, [], error.message.encode())


class Receiver:
    """Takes a request's body, and remembers what it heard."""

    def __init__(self) -> None:
        self.body = b""
        self.heard: list[str] = []
        self.on_data: Callable[[], None] = lambda: None
        # What it may finish early, if anything.
        self.exchange: ClientExchange | None = None

    def request_data(self, payload: bytes) -> None:
        self.body += payload
        self.on_data()

    def request_ended(self) -> None:
        self.heard.append("ended")

    def request_failed(self, error: StatusError) -> None:
        self.heard.append(f"failed {error.code}")

    def finish_early(self) -> bool:
        if self.exchange is None:
            return False
        self.exchange.end()
        return True

    def client_disconnected(self) -> None:
        self.heard.append("gone")

    def pause_response(self) -> None:
        self.heard.append("pause")

    def resume_response(self) -> None:
        self.heard.append("resume")


class Place:
    """Where the listener is, and what is behind it."""

    def __init__(
        self, context: SSL.Context, limits: ConnectionLimits, budget: UnauthenticatedMemoryBudget
    ) -> None:
        self.budget = budget
        self.clock = FakeClock()
        self.handler = Handler()
        self.listener = Listener(
            context=context,
            handler=self.handler,
            limits=limits,
            budget=budget,
            clock=self.clock,
        )
        self.address = ("", 0)


@asynccontextmanager
async def listening(
    certificates: Certificates,
    limits: ConnectionLimits = LIMITS,
    *,
    budget_bytes: int = 64 * 1024 * 1024,
    address_percent: int = 100,
) -> AsyncIterator[Place]:
    """Listen for the time of the context."""
    budget = UnauthenticatedMemoryBudget(budget_bytes, address_percent)
    place = Place(certificates.listening_context(), limits, budget)
    place.address = await place.listener.start("127.0.0.1", 0)
    try:
        yield place
    finally:
        await place.listener.stop()


async def held(place: Place, count: int = 1) -> None:
    """Wait until the handler holds that many requests."""
    await eventually(lambda: len(place.handler.held) == count)
