"""Connections of the admin port: how many there are, how long each lasts, which one makes room.

A new connection always gets in, so that a probe is answered whoever else is connected. When all
places are taken, a connection is closed for it: of the address with the most connections, one
without a request under way, and of those the oldest. An address with few connections loses none
while another one has more.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from proxy.concurrency.rate_limit import address_key

CloseReason = Literal["full", "timeout", "size"]
CLOSE_REASONS: tuple[CloseReason, ...] = ("full", "timeout", "size")

# From the head of a request to the end of its response. A review of a scraper's token may take
# five seconds, and a scrape waits for a page of at most a second ago.
_REQUEST_SECONDS = 30.0
# Everything received since the last response: head, body, and requests that were sent ahead. The
# longest line of a head is 8 KB, and scrapers send about 1 KB.
_RECEIVED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class AdminLimits:
    """How many connections there may be, and how long they may wait."""

    connections: int = 64
    head_seconds: float = 10.0
    idle_seconds: float = 90.0


class ClosingCounter(Protocol):
    """Counts connections that were closed because of a limit."""

    def admin_connection_closed(self, reason: CloseReason) -> None:
        """Count one."""
        ...


class AdminConnections:
    """Every open connection, the oldest first."""

    def __init__(
        self, limits: AdminLimits, counter: ClosingCounter, *, clock: Callable[[], float]
    ) -> None:
        self.limits = limits
        self._counter = counter
        self._clock = clock
        self._open: dict[AdminConnection, None] = {}
        self._by_origin: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def accept(self, accepted: socket.socket, address: str) -> "AdminConnection":
        """Return the record of a new connection, for which another one may be closed."""
        while len(self._open) >= self.limits.connections:
            self._largest_holders_oldest().close("full")
        connection = AdminConnection(self, accepted, address_key(address))
        self._open[connection] = None
        self._by_origin[connection.origin] += 1
        connection.deadline = self._clock() + self.limits.head_seconds
        return connection

    def close_late(self) -> None:
        """Close connections whose deadline has passed; called about once a second."""
        now = self._clock()
        for connection in [one for one in self._open if one.deadline < now]:
            connection.close("timeout")

    def close_all(self) -> None:
        """Close every connection."""
        for connection in list(self._open):
            connection.abort()

    def release(self, connection: "AdminConnection") -> None:
        """Give the place of a connection back; may be called more than once."""
        if connection in self._open:
            del self._open[connection]
            self._by_origin[connection.origin] -= 1
            if not self._by_origin[connection.origin]:
                del self._by_origin[connection.origin]

    def request_began(self, connection: "AdminConnection") -> None:
        """Give a request its time."""
        connection.has_request = True
        connection.deadline = self._clock() + _REQUEST_SECONDS

    def request_ended(self, connection: "AdminConnection") -> None:
        """Wait for the next request, whose whole head has to come within the idle time."""
        connection.has_request = False
        connection.received_bytes = 0
        connection.deadline = self._clock() + self.limits.idle_seconds

    def closed(self, reason: CloseReason) -> None:
        """Count a connection that was closed because of a limit."""
        self._counter.admin_connection_closed(reason)

    def _largest_holders_oldest(self) -> "AdminConnection":
        most = max(self._by_origin.values())
        candidates = [one for one in self._open if self._by_origin[one.origin] == most]
        return next((one for one in candidates if not one.has_request), candidates[0])


class AdminConnection:
    """One connection, from the moment it was accepted."""

    def __init__(self, home: AdminConnections, accepted: socket.socket, origin: str) -> None:
        self._home = home
        self._accepted = accepted
        self.origin = origin
        self.deadline = 0.0
        self.has_request = False
        self.received_bytes = 0
        self.opening: asyncio.Task[None] | None = None
        """Waits for a turn and for the TLS handshake, until there is a transport."""
        self.transport: asyncio.Transport | None = None

    def received(self, count: int) -> None:
        """Count bytes since the last response; too many end the connection."""
        self.received_bytes += count
        if self.received_bytes > _RECEIVED_BYTES:
            self.close("size")

    def close(self, reason: CloseReason) -> None:
        """Close because of a limit."""
        self._home.closed(reason)
        self.abort()

    def abort(self) -> None:
        """Close at once; what was written and not sent is dropped."""
        # The place is free from here on: neither the client nor the loop can delay that.
        self._home.release(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        else:
            self._accepted.close()

    def lost(self) -> None:
        """Called when the transport has ended."""
        self._home.release(self)
