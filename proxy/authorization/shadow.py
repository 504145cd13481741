"""What would become of a request if legacy impersonation were off? Judged beside its way, and told.

Nothing here decides anything: a request is handed over after it was admitted, nobody waits for its
judgement, and what is found out is kept apart from what decisions are made by. Reviews have a desk
and a ration of their own, so that those of real decisions never wait behind them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from proxy.authorization.check_prefetch import AccessReviewer
from proxy.authorization.decision_cache import DecisionCache
from proxy.authorization.impersonation import DecisionObserver
from proxy.authorization.pod_nodes import Authorizer
from proxy.concurrency.circuit_breaker import CircuitBreaker
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import CheckResult, is_larger_than
from proxy.core.errors import StatusError, TooManyRequests
from proxy.core.impersonation.cache_keys import ReusableDecision
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
from proxy.core.impersonation.modes import ImpersonationMode, applicable_modes
from proxy.core.impersonation.permit import Permit
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.ttl_cache import TTLCache
from proxy.core.userinfo import Caller, UserInfo
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_NO_MODE = "none"
_DROPPED = ("dropped", "")
# All are one line before the ration: it bounds what the shadow costs, not what a caller may cost.
_EVERYBODY = ""
_REMEMBERED = 4096
# Of what a client can make long. With the numbers above it bounds what waits and is remembered.
_LARGEST_REQUEST = 8192


class ShadowRequest(NamedTuple):
    """What is judged; equal ones have the same judgement."""

    caller: Caller
    wanted_user: UserInfo
    request_info: RequestInfo
    is_upgrade: bool


class ShadowDecision(NamedTuple):
    """What the constrained rules would have said, and the first check that fails, if one does."""

    outcome: str
    mode: str
    missing: str = ""


class ShadowCounter(Protocol):
    """Counts what was found out."""

    def shadowed(self, outcome: str, mode: str, count: int = 1) -> None:
        """Count requests: would-allow, would-deny, dropped or error."""
        ...


@dataclass(frozen=True, slots=True)
class ShadowLimits:
    """How much the shadow may cost, and how long a judgement counts for equal requests."""

    sample: float = 1.0
    queue_size: int = 1000
    in_flight: int = 4
    per_second: float = 50.0
    ttl_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ShadowDependencies:
    """What a shadow needs from its surroundings."""

    clock: Callable[[], float]
    chance: Callable[[], float]
    """A number from 0 up to 1, another one each time."""
    breaker: CircuitBreaker
    """That of real decisions: while they get no answers, nobody else is to ask."""
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
    """Judges in bounded numbers what it is handed; what it cannot take is dropped and counted."""

    def __init__(
        self,
        rules: ImpersonationRules,
        *,
        reviewer: AccessReviewer,
        counter: ShadowCounter,
        limits: ShadowLimits,
        tools: ShadowDependencies,
    ) -> None:
        """`rules` are those of real decisions."""
        self._rules = constrained_rules(rules)
        self._reviewer = reviewer
        self._counter = counter
        self._sample = limits.sample
        self._tools = tools
        self._most_pending = limits.queue_size + limits.in_flight
        self._free = limits.in_flight
        rate_limit = RateLimit(limits.per_second, max(limits.per_second, 1.0))
        self._buckets = KeyedTokenBucket(rate_limit, tools.clock, refusal="too many to be judged")
        # Beside the grants that were found, denials as well: they deny nothing to anybody here.
        self._judged = TTLCache[ShadowRequest, ShadowDecision](
            _REMEMBERED, limits.ttl_seconds, tools.clock
        )
        self._decisions = DecisionCache(
            ttl_seconds=limits.ttl_seconds,
            legacy_ttl_seconds=0.0,
            entries=_REMEMBERED,
            clock=tools.clock,
        )
        self._queue: deque[tuple[ShadowRequest, bytes]] = deque()
        self._pending: dict[ShadowRequest, int] = {}
        """How many equal requests each judgement that is to come is for."""

    def submit(self, request: ShadowRequest, audit_id: bytes) -> None:
        """Take a request that legacy impersonation has allowed, or leave it; at once."""
        if self._sample < 1 and self._tools.chance() >= self._sample:
            return
        known = self._judged.get(request)
        if known is not None:
            self._counter.shadowed(known.outcome, known.mode)
        elif request in self._pending:
            self._pending[request] += 1
        elif not self._has_room_for(request):
            self._counter.shadowed(*_DROPPED)
        else:
            self._pending[request] = 1
            self._queue.append((request, audit_id))
            if self._free:
                self._free -= 1
                self._tools.tasks.start_background(self._work())

    def _has_room_for(self, request: ShadowRequest) -> bool:
        if len(self._pending) >= self._most_pending or self._tools.breaker.is_open:
            return False
        request_info = request.request_info
        if len(request_info.path) > _LARGEST_REQUEST:  # what waits holds it, though no review does
            return False
        if is_larger_than(
            access_check_for(request_info, request_info.verb, user=request.wanted_user),
            _LARGEST_REQUEST,
        ):
            return False
        try:
            self._buckets.take(_EVERYBODY)
        except TooManyRequests:
            return False
        return True

    async def _work(self) -> None:
        """Judge what waits until nothing does."""
        try:
            while self._queue:
                request, audit_id = self._queue.popleft()
                try:
                    self._tell(request, audit_id, await self._judge(request))
                finally:
                    del self._pending[request]
        finally:
            self._free += 1

    def _tell(self, request: ShadowRequest, audit_id: bytes, judgement: ShadowDecision) -> None:
        self._counter.shadowed(judgement.outcome, judgement.mode, self._pending[request])
        if judgement.outcome.startswith("would-"):
            self._judged.put(request, judgement)
        is_denial = judgement.outcome == "would-deny"
        log.log(
            logging.INFO if is_denial else logging.DEBUG,
            "legacy impersonation judged",
            extra=fields(
                audit_id=audit_id.decode(),
                outcome=judgement.outcome,
                mode=judgement.mode,
                caller=request.caller.user.name,
                target=request.wanted_user.name,
                missing=judgement.missing,
            ),
        )

    async def _judge(self, request: ShadowRequest) -> ShadowDecision:
        try:
            decision = await self._verdict(request)
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

    async def _verdict(self, request: ShadowRequest) -> ImpersonationDecision:
        """Decide as the gate would, from no history, and with nothing asked ahead."""
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

    def _attempts(self, request: ShadowRequest) -> Iterator[Attempt]:
        return plan_attempts(
            request.caller,
            request.wanted_user,
            request.request_info,
            rules=self._rules,
            is_upgrade=request.is_upgrade,
        )

    async def _answer(self, question: Question) -> CheckResult:
        if isinstance(question, CacheLookup):
            return CheckResult(self._decisions.contains(question.attempt, question.layer))
        return await asyncio.shield(self._reviewer.submit(question.check))


_TOO_MANY_REVIEWS = "too many access reviews for this caller"


class ShadowingAuthorizer:
    """Decides nothing: it hands over what legacy impersonation has allowed, and goes on."""

    def __init__(self, authorizer: Authorizer, shadow: ShadowEvaluator) -> None:
        self._authorizer = authorizer
        self._shadow = shadow

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool = False,
        witness: DecisionObserver | None = None,
    ) -> Permit:
        """Return the permit to forward or refuse."""
        permit = await self._authorizer.authorize(
            caller, wanted_user, request_info, is_upgrade=is_upgrade, witness=witness
        )
        if permit.mode is ImpersonationMode.LEGACY and wanted_user is not None:
            audit_id = b"" if witness is None else witness.audit_id
            self._shadow.submit(
                ShadowRequest(caller, wanted_user, request_info, is_upgrade), audit_id
            )
        return permit

    def reusable_decision(
        self, caller: Caller, wanted_user: UserInfo | None, request_info: RequestInfo
    ) -> ReusableDecision | None:
        """Return by what an equal request can be admitted again; never what we hand over."""
        known = self._authorizer.reusable_decision(caller, wanted_user, request_info)
        return None if known is None or known.permit.mode is ImpersonationMode.LEGACY else known

    def reauthorize(self, known: ReusableDecision) -> Permit | None:
        """Return the permit for an equal request if it would come out the same; None in doubt."""
        return self._authorizer.reauthorize(known)
