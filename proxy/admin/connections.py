"""Connections of the admin port: their number, their deadlines, and which one is evicted.

A new connection is always accepted, so that a probe is answered whatever else is connected. At the
limit another connection is closed for it: the oldest one without a request in flight, of the
address with the most connections. An address with few connections loses none while another one has
more.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from proxy.concurrency.rate_limit import address_key
from proxy.telemetry.metrics.serving import ServingMetrics

CloseReason = Literal["full", "timeout", "size"]
CLOSE_REASONS: tuple[CloseReason, ...] = ("full", "timeout", "size")

# From the head of a request to the end of its response. The review of a scraper's token may take
# five seconds, and a scrape may wait a second for its page.
_MAX_REQUEST_SECONDS = 30.0
# Everything received since the last response: head, body and pipelined requests. The longest line
# of a head is 8 KB, and scrapers send about 1 KB.
_MAX_RECEIVED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class AdminLimits:
    """The maximum number of connections, and their timeouts."""

    connections: int = 64
    head_seconds: float = 10.0
    idle_seconds: float = 90.0


class AdminConnections:
    """All open connections, the oldest first."""

    def __init__(
        self, limits: AdminLimits, counter: ServingMetrics, *, clock: Callable[[], float]
    ) -> None:
        self.limits = limits
        self._counter = counter
        self._clock = clock
        self._open: dict[AdminConnection, None] = {}
        self._by_origin: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def accept(self, accepted: socket.socket, address: str) -> "AdminConnection":
        """Add a new connection; at the limit, close another one for it."""
        while len(self._open) >= self.limits.connections:
            self._connection_to_evict().close("full")
        connection = AdminConnection(self, accepted, address_key(address))
        self._open[connection] = None
        self._by_origin[connection.origin] += 1
        connection.deadline = self._clock() + self.limits.head_seconds
        return connection

    def close_late(self) -> None:
        """Close connections whose deadline has passed; called about once a second."""
        now = self._clock()
        late = [connection for connection in self._open if connection.deadline < now]
        for connection in late:
            connection.close("timeout")

    def close_all(self) -> None:
        """Close every connection."""
        for connection in list(self._open):
            connection.abort()

    def release(self, connection: "AdminConnection") -> None:
        """Remove a connection; may be called more than once."""
        if connection in self._open:
            del self._open[connection]
            self._by_origin[connection.origin] -= 1
            if not self._by_origin[connection.origin]:
                del self._by_origin[connection.origin]

    def on_request_started(self, connection: "AdminConnection") -> None:
        """Start the deadline of a request whose head was read."""
        connection.has_request = True
        connection.deadline = self._clock() + _MAX_REQUEST_SECONDS

    def on_request_ended(self, connection: "AdminConnection") -> None:
        """Start the idle time after a sent response; the next head must be complete within it."""
        connection.has_request = False
        connection.received_bytes = 0
        connection.deadline = self._clock() + self.limits.idle_seconds

    def count_closed(self, reason: CloseReason) -> None:
        """Count a connection that was closed by a limit."""
        self._counter.admin_connection_closed(reason)

    def _connection_to_evict(self) -> "AdminConnection":
        most = max(self._by_origin.values())
        candidates = [
            connection for connection in self._open if self._by_origin[connection.origin] == most
        ]
        idle = (connection for connection in candidates if not connection.has_request)
        return next(idle, candidates[0])


class AdminConnection:
    """One accepted connection."""

    def __init__(self, owner: AdminConnections, accepted: socket.socket, origin: str) -> None:
        self._owner = owner
        self._accepted = accepted
        self.origin = origin
        self.deadline = 0.0
        self.has_request = False
        self.received_bytes = 0
        self.opening: asyncio.Task[None] | None = None
        """Waits for its slot and for the TLS handshake, until there is a transport."""
        self.transport: asyncio.Transport | None = None

    def on_bytes_received(self, count: int) -> None:
        """Count bytes received since the last response; too many close the connection."""
        self.received_bytes += count
        if self.received_bytes > _MAX_RECEIVED_BYTES:
            self.close("size")

    def close(self, reason: CloseReason) -> None:
        """Close because of a limit."""
        self._owner.count_closed(reason)
        self.abort()

    def abort(self) -> None:
        """Close at once; unsent data is dropped."""
        # The slot is free from here on: neither the client nor the event loop can delay that.
        self._owner.release(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        else:
            self._accepted.close()

    def on_disconnect(self) -> None:
        """Release the connection when its transport has ended."""
        self._owner.release(self)
