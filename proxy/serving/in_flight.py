"""Requests being served at a time: beyond a limit the next one is told to come again.

As at the API server, what reads and what may change something are counted apart, so that neither
can crowd out the other, and long-running requests are not counted: they cost next to nothing while
they wait. It stands after authentication, so strangers take no place from callers, and before the
reviews, so a flood of callers is not multiplied into a flood of questions.
"""

from typing import Protocol

from proxy.core.action import Action
from proxy.core.errors import TooManyRequests
from proxy.wire.exchange import ClientExchange, Outcome

# The native server's sets; every other verb may change something.
_READING_VERBS = frozenset(("get", "list", "watch"))
_RETRY_AFTER_SECONDS = 1


class TurnedAwayCounter(Protocol):
    """Learns who was told to come again."""

    def request_turned_away(self, kind: str) -> None:
        """Count one request; `kind` is read or write."""
        ...


class _Lane:
    """The places for one kind of request."""

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def leave(self, _outcome: Outcome) -> None:
        self.taken -= 1


class InFlight:
    """Has a place for each request that is being served."""

    def __init__(self, *, reads: int, writes: int, counter: TurnedAwayCounter) -> None:
        self._reads = _Lane(reads)
        self._writes = _Lane(writes)
        self._counter = counter

    @property
    def taken(self) -> tuple[int, int]:
        """How many reads and how many writes are being served."""
        return self._reads.taken, self._writes.taken

    def enter(self, exchange: ClientExchange, action: Action) -> None:
        """Take a place until the exchange ends, or refuse with 429.

        The request has reached nobody yet, so it is safe to ask the client to repeat it.
        """
        if action.is_long_running or exchange.request.upgrade is not None:
            return
        is_read = action.verb in _READING_VERBS
        lane = self._reads if is_read else self._writes
        if lane.taken < lane.limit:
            lane.taken += 1
            # An exchange ends exactly once, however it ends, and then gives its place back; one
            # that is over already gives it back at once.
            exchange.when_ended(lane.leave)
        else:
            self._counter.request_turned_away("read" if is_read else "write")
            raise TooManyRequests(
                "too many requests, please try again later",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            )
