"""Shadow evaluation: would a request be allowed without legacy impersonation?

Nothing here decides anything. A request is submitted after it was permitted, no request waits for
its shadow decision, and the results are kept apart from the caches of real decisions. Reviews have
their own queue and rate limit, so those of real decisions never wait behind them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from proxy.authorization.access_review import AccessReviewQueue
from proxy.authorization.decision_cache import DecisionCache, ImpersonatedRequest
from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import CheckResult, is_review_larger_than
from proxy.core.errors import StatusError, TooManyRequests
from proxy.core.impersonation.checks import (
    Attempt,
    ImpersonationRules,
    access_check_for,
    plan_attempts,
)
from proxy.core.impersonation.evaluation import (
    Allowed,
    CacheLookup,
    ImpersonationDecision,
    Question,
    check_summary,
    evaluate,
    unsatisfiable_reason,
)
from proxy.core.impersonation.modes import applicable_modes
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.ttl_cache import TTLCache
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.impersonation import ShadowMetrics

log = logging.getLogger(__name__)

_NO_MODE = "none"
_DROPPED = ("dropped", "")
# All callers share one bucket: it bounds the cost of the shadow, not that of one caller.
_SHARED_BUCKET = ""
_MAX_CACHED = 4096
# Bounds what a client can make long. With the limits above it bounds the queue and the cache.
_MAX_REQUEST_BYTES = 8192


class ShadowDecision(NamedTuple):
    """The outcome under the constrained rules, and the first failed check, if any."""

    outcome: str
    mode: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class ShadowLimits:
    """The cost limits of the shadow, and the TTL of its decisions for equal requests."""

    sample: float = 1.0
    queue_size: int = 1000
    in_flight: int = 4
    per_second: float = 50.0
    ttl_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ShadowDependencies:
    """The dependencies of a shadow evaluator."""

    clock: Callable[[], float]
    random: Callable[[], float]
    """Returns a random number in [0, 1)."""
    breaker: CircuitBreaker
    """The breaker of real decisions: while their reviews fail, the shadow sends none."""
    tasks: TaskSet


def constrained_rules(rules: ImpersonationRules) -> ImpersonationRules:
    """Return the same rules without legacy impersonation."""
    return replace(
        rules,
        constrained=True,
        legacy=LegacyPolicy(LegacyAction.DENY),
        caches_legacy=False,
    )


class ShadowEvaluator:
    """Evaluates submitted requests in bounded numbers; drops and counts the rest."""

    def __init__(
        self,
        rules: ImpersonationRules,
        *,
        reviewer: AccessReviewQueue,
        counter: ShadowMetrics,
        limits: ShadowLimits,
        dependencies: ShadowDependencies,
    ) -> None:
        """`rules` are those of real decisions."""
        self._rules = constrained_rules(rules)
        self._reviewer = reviewer
        self._counter = counter
        self._sample = limits.sample
        self._tools = dependencies
        self._max_pending = limits.queue_size + limits.in_flight
        self._free_workers = limits.in_flight
        rate_limit = RateLimit(limits.per_second, max(limits.per_second, 1.0))
        self._buckets = KeyedTokenBucket(
            rate_limit, dependencies.clock, rejection="too many shadow evaluations"
        )
        # Denials are cached as well as allows: a shadow decision denies nothing.
        self._cached = TTLCache[ImpersonatedRequest, ShadowDecision](
            _MAX_CACHED, limits.ttl_seconds, dependencies.clock
        )
        self._decisions = DecisionCache(
            ttl_seconds=limits.ttl_seconds,
            legacy_ttl_seconds=0.0,
            entries=_MAX_CACHED,
            clock=dependencies.clock,
        )
        self._queue: deque[tuple[ImpersonatedRequest, bytes]] = deque()
        self._pending: dict[ImpersonatedRequest, int] = {}
        """The number of equal requests that each pending decision is for."""

    def submit(self, request: ImpersonatedRequest, audit_id: bytes) -> None:
        """Queue a request that legacy impersonation has allowed, or drop it; never blocks."""
        if self._sample < 1 and self._tools.random() >= self._sample:
            return
        known = self._cached.get(request)
        if known is not None:
            self._counter.shadow_evaluated(known.outcome, known.mode)
        elif request in self._pending:
            self._pending[request] += 1
        elif not self._accepts(request):
            self._counter.shadow_evaluated(*_DROPPED)
        else:
            self._pending[request] = 1
            self._queue.append((request, audit_id))
            if self._free_workers:
                self._free_workers -= 1
                self._tools.tasks.start_background(self._work())

    def _accepts(self, request: ImpersonatedRequest) -> bool:
        if len(self._pending) >= self._max_pending or self._tools.breaker.is_open:
            return False
        request_info = request.request_info
        # No review holds the path, but a queued entry does.
        if len(request_info.path) > _MAX_REQUEST_BYTES:
            return False
        if is_review_larger_than(
            access_check_for(request_info, request_info.verb, user=request.wanted_user),
            _MAX_REQUEST_BYTES,
        ):
            return False
        try:
            self._buckets.take(_SHARED_BUCKET)
        except TooManyRequests:
            return False
        return True

    async def _work(self) -> None:
        """Evaluate queued requests until the queue is empty."""
        try:
            while self._queue:
                request, audit_id = self._queue.popleft()
                try:
                    self._report(request, audit_id, await self._evaluate(request))
                finally:
                    del self._pending[request]
        finally:
            self._free_workers += 1

    def _report(
        self, request: ImpersonatedRequest, audit_id: bytes, decision: ShadowDecision
    ) -> None:
        self._counter.shadow_evaluated(decision.outcome, decision.mode, self._pending[request])
        if decision.outcome.startswith("would-"):
            self._cached.put(request, decision)
        is_denial = decision.outcome == "would-deny"
        log.log(
            logging.INFO if is_denial else logging.DEBUG,
            "legacy impersonation evaluated",
            extra=fields(
                audit_id=audit_id.decode(),
                outcome=decision.outcome,
                mode=decision.mode,
                caller=request.caller.user.name,
                target=request.wanted_user.name,
                missing=decision.missing,
            ),
        )

    async def _evaluate(self, request: ImpersonatedRequest) -> ShadowDecision:
        try:
            decision = await self._decide(request)
        except TooManyRequests:
            return ShadowDecision(*_DROPPED)
        except StatusError:
            return ShadowDecision("error", "")
        if isinstance(decision, Allowed):
            return ShadowDecision("would-allow", decision.mode.value)
        reason = unsatisfiable_reason(self._attempts(request))
        if reason is not None or decision.first_failure is None:
            return ShadowDecision("would-deny", _NO_MODE, reason or decision.reason)
        mode = applicable_modes(request.caller, request.wanted_user)[0]
        return ShadowDecision("would-deny", mode.value, check_summary(decision.first_failure))

    async def _decide(self, request: ImpersonatedRequest) -> ImpersonationDecision:
        """Decide as the impersonation authorizer does, without mode cache and prefetching."""
        evaluation = evaluate(self._attempts(request))
        try:
            question = next(evaluation)
            while True:
                question = evaluation.send(await self._answer(question))
        except StopIteration as decided:
            decision: ImpersonationDecision = decided.value
            if isinstance(decision, Allowed):
                for layer in decision.cacheable:
                    self._decisions.add(decision.attempt, layer)
            return decision

    def _attempts(self, request: ImpersonatedRequest) -> Iterator[Attempt]:
        return plan_attempts(
            request.caller,
            request.wanted_user,
            request.request_info,
            rules=self._rules,
            is_upgrade=request.is_upgrade,
        )

    async def _answer(self, question: Question) -> CheckResult:
        if isinstance(question, CacheLookup):
            return CheckResult(self._decisions.contains(question.attempt, question.scope))
        return await asyncio.shield(self._reviewer.submit(question.check))
