"""Progress of responses: a client that takes nothing of its response loses it.

Looked at about once a second, by what the kernel counts, so nothing is done per request or write.
Within the time given a client must take 64 KiB, or all that was pending when the time began. A
client that reads a byte now and then does neither. Long-running requests and tunnels are exempt.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from proxy.serving.exchange import ServerExchange
from proxy.serving.exchange_transport import ExchangeKind
from proxy.wire.tcp import SentBytes

_PROGRESS_BYTES = 64 * 1024


class Sending(Protocol):
    """A connection that may have a response under way."""

    @property
    def exchange(self) -> ServerExchange | None:
        """The request that is being served."""
        ...

    def sent_bytes(self) -> SentBytes | None:
        """Return what the client has taken and what it has not."""
        ...


Connection = TypeVar("Connection", bound=Sending)


@dataclass(frozen=True, slots=True)
class _Goal:
    """How much the client must have acknowledged, and by when."""

    acknowledged: int
    until: float


class ResponseProgress:
    """Remembers what each client with a pending response has to take, and by when."""

    def __init__(self) -> None:
        self._goals: dict[ServerExchange, _Goal] = {}

    def stalled(
        self, connections: Iterable[Connection], now: float, *, timeout_seconds: float
    ) -> list[Connection]:
        """Return the connections whose client has not taken enough in time."""
        goals: dict[ServerExchange, _Goal] = {}
        late = []
        for connection in connections:
            exchange = connection.exchange
            if exchange is None or not _needs_progress(exchange):
                continue
            sent = connection.sent_bytes()
            if sent is None or not sent.pending:
                continue
            goal = self._goals.get(exchange)
            if goal is None or sent.acknowledged >= goal.acknowledged:
                wanted = sent.acknowledged + min(sent.pending, _PROGRESS_BYTES)
                goal = _Goal(wanted, now + timeout_seconds)
            elif now >= goal.until:
                late.append(connection)
                continue
            goals[exchange] = goal
        self._goals = goals
        return late


def _needs_progress(exchange: ServerExchange) -> bool:
    is_ordinary = exchange.has_started and not exchange.is_long_running
    return is_ordinary and exchange.kind is ExchangeKind.ORDINARY
