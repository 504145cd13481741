"""Minimum progress of responses: a connection whose client does not read is closed.

Progress is checked about once a second from kernel counters, so there is no cost per request or
write. Within the timeout a client must read 64 KiB, or all that was pending when the timeout began.
A client that reads single bytes does neither. Long-running requests and tunnels are exempt.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from proxy.serving.exchange import ServerExchange
from proxy.serving.exchange_transport import ExchangeKind
from proxy.wire.tcp import SentBytes

_PROGRESS_BYTES = 64 * 1024


class SendingConnection(Protocol):
    """A connection that may be sending a response."""

    @property
    def exchange(self) -> ServerExchange | None:
        """The exchange in progress."""
        ...

    def sent_bytes(self) -> SentBytes | None:
        """Return acknowledged and pending bytes."""
        ...


Connection = TypeVar("Connection", bound=SendingConnection)


@dataclass(frozen=True, slots=True)
class _Goal:
    """How much the client must have acknowledged, and by when."""

    acknowledged: int
    deadline: float


class ResponseProgress:
    """Tracks how much each client with a pending response must read, and by when."""

    def __init__(self) -> None:
        self._goals: dict[ServerExchange, _Goal] = {}

    def stalled(
        self, connections: Iterable[Connection], now: float, *, timeout_seconds: float
    ) -> list[Connection]:
        """Return the connections whose client has not read enough in time."""
        goals: dict[ServerExchange, _Goal] = {}
        stalled_connections = []
        for connection in connections:
            exchange = connection.exchange
            if exchange is None or not _needs_progress(exchange):
                continue
            sent = connection.sent_bytes()
            if sent is None or not sent.pending:
                continue
            goal = self._goals.get(exchange)
            if goal is None or sent.acknowledged >= goal.acknowledged:
                target = sent.acknowledged + min(sent.pending, _PROGRESS_BYTES)
                goal = _Goal(target, now + timeout_seconds)
            elif now >= goal.deadline:
                stalled_connections.append(connection)
                continue
            goals[exchange] = goal
        self._goals = goals
        return stalled_connections


def _needs_progress(exchange: ServerExchange) -> bool:
    is_ordinary = exchange.has_started and not exchange.is_long_running
    return is_ordinary and exchange.kind is ExchangeKind.ORDINARY
