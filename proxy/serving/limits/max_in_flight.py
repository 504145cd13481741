"""Limits of concurrent requests: above a limit the client receives 429 with Retry-After.

As in kube-apiserver, read-only and mutating requests are counted separately, so neither can crowd
out the other. Long-running requests have no total limit: they cost almost nothing while they wait.
The check runs after authentication, so unauthenticated clients use no capacity of callers. It runs
before the access reviews, so a flood of requests does not cause a flood of reviews.

One caller may use only a part of the capacity: a client that never reads its responses holds it.
"""

import sys
from dataclasses import dataclass

from proxy.core.errors import TooManyRequests
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller
from proxy.telemetry.metrics.serving import ServingMetrics
from proxy.wire.exchange import ClientExchange, ExchangeOutcome

# kube-apiserver's read-only verbs; every other verb is mutating.
_READ_ONLY_VERBS = frozenset(("get", "list", "watch"))
_RETRY_AFTER_SECONDS = 1
_MAX_TRACKED_CALLERS = 1024
_TOO_MANY = "too many requests, please try again later"
_TOO_MANY_OF_CALLER = "too many concurrent requests from this caller, please try again later"


class _Pool:
    """The capacity for one kind of request."""

    __slots__ = ("callers", "in_flight", "limit", "per_caller")

    def __init__(self, limit: int, per_caller: int) -> None:
        self.limit = limit
        self.per_caller = per_caller
        self.callers: dict[str, _CallerUsage] = {}
        self.in_flight = 0

    def add_caller(self, caller: str) -> "_CallerUsage":
        """Add usage for a new caller; drop the entries of idle callers if there are many."""
        if len(self.callers) >= _MAX_TRACKED_CALLERS:
            self.callers = {name: usage for name, usage in self.callers.items() if usage.in_flight}
        usage = self.callers[caller] = _CallerUsage(self)
        return usage


class _CallerUsage:
    """The requests of one caller that are in flight."""

    __slots__ = ("_pool", "in_flight")

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self.in_flight = 0

    def request_ended(self, _outcome: ExchangeOutcome) -> None:
        """Free the capacity of a request when it ends."""
        self.in_flight -= 1
        self._pool.in_flight -= 1


@dataclass(frozen=True, slots=True)
class PerCallerLimit:
    """The share of the capacity that one caller may use."""

    percent: int = 100
    """Percentage of the limit for reads, and of the limit for writes; at least one request."""
    long_running: int = 0
    """Maximum long-running requests; 0 means any number."""

    def share_of(self, limit: int) -> int:
        """Return the share of `limit` that one caller may use."""
        return -(-limit * self.percent // 100)


_NO_CALLER_LIMIT = PerCallerLimit()


class MaxInFlightLimiter:
    """Counts the requests in flight, and rejects those above the limits."""

    def __init__(
        self,
        *,
        reads: int,
        writes: int,
        counter: ServingMetrics,
        per_caller: PerCallerLimit = _NO_CALLER_LIMIT,
    ) -> None:
        self._reads, self._writes = _Pool(0, 0), _Pool(0, 0)
        # No total limit: long-running requests cost almost nothing while they wait.
        self._long_running = _Pool(sys.maxsize, sys.maxsize)
        self._counter = counter
        self.set_limits(reads=reads, writes=writes, per_caller=per_caller)

    @property
    def in_use(self) -> tuple[int, int]:
        """The numbers of reads and of writes in flight."""
        return self._reads.in_flight, self._writes.in_flight

    def set_limits(self, *, reads: int, writes: int, per_caller: PerCallerLimit) -> None:
        """Apply these limits to new requests; those in flight continue."""
        self._reads.limit, self._reads.per_caller = reads, per_caller.share_of(reads)
        self._writes.limit, self._writes.per_caller = writes, per_caller.share_of(writes)
        self._long_running.per_caller = per_caller.long_running or sys.maxsize

    def acquire(self, exchange: ClientExchange, request_info: RequestInfo, caller: Caller) -> None:
        """Count the request until its exchange ends, or reject it with 429.

        The request has not been forwarded, so the client can safely repeat it.
        """
        if request_info.is_long_running or exchange.request.upgrade is not None:
            pool, kind = self._long_running, "caller"
        elif request_info.verb in _READ_ONLY_VERBS:
            pool, kind = self._reads, "read"
        else:
            pool, kind = self._writes, "write"
        if pool.in_flight >= pool.limit:
            self._counter.request_rejected(kind)
            raise TooManyRequests(_TOO_MANY, retry_after_seconds=_RETRY_AFTER_SECONDS)
        usage = pool.callers.get(caller.user.name) or pool.add_caller(caller.user.name)
        if usage.in_flight >= pool.per_caller:
            self._counter.request_rejected("caller")
            raise TooManyRequests(_TOO_MANY_OF_CALLER, retry_after_seconds=_RETRY_AFTER_SECONDS)
        usage.in_flight += 1
        pool.in_flight += 1
        # An exchange ends exactly once, however it ends, and then frees its capacity. One that has
        # already ended frees it immediately.
        exchange.on_complete(usage.request_ended)
