"""Requests being served at a time: beyond a limit the next one is told to come again.

As at the API server, what reads and what may change something are counted apart, so that neither
can crowd out the other, and long-running requests are not counted: they cost next to nothing while
they wait. It stands after authentication, so strangers take no place from callers, and before the
reviews, so a flood of callers is not multiplied into a flood of questions.

One caller may take only a part of the places: a client that takes none of its answers holds them.
"""

import sys
from dataclasses import dataclass
from typing import Protocol

from proxy.core.errors import TooManyRequests
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller
from proxy.wire.exchange import ClientExchange, ExchangeOutcome

# The native server's sets; every other verb may change something.
_READING_VERBS = frozenset(("get", "list", "watch"))
_RETRY_AFTER_SECONDS = 1
_MOST_KNOWN = 1024
_TOO_MANY = "too many requests, please try again later"
_TOO_MANY_OF_ONE = "too many requests of this caller at a time, please try again later"


class TurnedAwayCounter(Protocol):
    """Learns who was told to come again."""

    def request_turned_away(self, kind: str) -> None:
        """Count one request; `kind` is read, write, or caller: too many of one."""
        ...


class _Pool:
    """The places for one kind of request."""

    __slots__ = ("guests", "limit", "per_caller", "taken")

    def __init__(self, limit: int, per_caller: int) -> None:
        self.limit = limit
        self.per_caller = per_caller
        self.guests: dict[str, _CallerUsage] = {}
        self.taken = 0

    def welcome(self, caller: str) -> "_CallerUsage":
        """Return a caller that is not known, and forget those who have left if they are many."""
        if len(self.guests) >= _MOST_KNOWN:
            self.guests = {name: one for name, one in self.guests.items() if one.held}
        guest = self.guests[caller] = _CallerUsage(self)
        return guest


class _CallerUsage:
    """A caller, and how many places it has."""

    __slots__ = ("_lane", "held")

    def __init__(self, lane: _Pool) -> None:
        self._lane = lane
        self.held = 0

    def leave(self, _outcome: ExchangeOutcome) -> None:
        """Give one back."""
        self.held -= 1
        self._lane.taken -= 1


@dataclass(frozen=True, slots=True)
class PerCallerLimit:
    """How many places one caller may take."""

    percent: int = 100
    """Of the places for reads, and of those for writes; at least one."""
    long_running: int = 0
    """Requests that may last; 0: any number."""

    def of(self, limit: int) -> int:
        """Return how many of these places one caller may take."""
        return -(-limit * self.percent // 100)


_ALL_FOR_ONE = PerCallerLimit()


class MaxInFlightLimiter:
    """Has a place for each request that is being served."""

    def __init__(
        self,
        *,
        reads: int,
        writes: int,
        counter: TurnedAwayCounter,
        per_caller: PerCallerLimit = _ALL_FOR_ONE,
    ) -> None:
        self._reads, self._writes = _Pool(0, 0), _Pool(0, 0)
        # There is no limit for all of them: they cost next to nothing while they wait.
        self._lasting = _Pool(sys.maxsize, sys.maxsize)
        self._counter = counter
        self.limit(reads=reads, writes=writes, per_caller=per_caller)

    @property
    def in_use(self) -> tuple[int, int]:
        """How many reads and how many writes are being served."""
        return self._reads.taken, self._writes.taken

    def limit(self, *, reads: int, writes: int, per_caller: PerCallerLimit) -> None:
        """Hold newcomers to these limits; whoever has a place keeps it."""
        self._reads.limit, self._reads.per_caller = reads, per_caller.of(reads)
        self._writes.limit, self._writes.per_caller = writes, per_caller.of(writes)
        self._lasting.per_caller = per_caller.long_running or sys.maxsize

    def acquire(self, exchange: ClientExchange, request_info: RequestInfo, caller: Caller) -> None:
        """Take a place until the exchange ends, or refuse with 429.

        The request has reached nobody yet, so it is safe to ask the client to repeat it.
        """
        if request_info.is_long_running or exchange.request.upgrade is not None:
            lane, kind = self._lasting, "caller"
        elif request_info.verb in _READING_VERBS:
            lane, kind = self._reads, "read"
        else:
            lane, kind = self._writes, "write"
        if lane.taken >= lane.limit:
            self._counter.request_turned_away(kind)
            raise TooManyRequests(_TOO_MANY, retry_after_seconds=_RETRY_AFTER_SECONDS)
        guest = lane.guests.get(caller.user.name) or lane.welcome(caller.user.name)
        if guest.held >= lane.per_caller:
            self._counter.request_turned_away("caller")
            raise TooManyRequests(_TOO_MANY_OF_ONE, retry_after_seconds=_RETRY_AFTER_SECONDS)
        guest.held += 1
        lane.taken += 1
        # An exchange ends exactly once, however it ends, and then gives its place back; one that
        # is over already gives it back at once.
        exchange.on_complete(guest.leave)
