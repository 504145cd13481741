"""Impersonation authorizer: drives the evaluation of the core with real check results.

Results come from the decision cache or from the reviewer. If the cache has all of them, nothing is
awaited and the decision is made synchronously.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, assert_never

from proxy.authorization.check_prefetch import AccessReviewer, CheckCounter, CheckPrefetcher
from proxy.authorization.decision_cache import ImpersonationCaches, ReusableDecisions
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import CheckResult
from proxy.core.errors import Forbidden, UpstreamUnavailable
from proxy.core.impersonation.cache_keys import ReusableDecision
from proxy.core.impersonation.checks import Attempt, ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import (
    Allowed,
    Ask,
    CacheLookup,
    Denied,
    Evaluation,
    ImpersonationDecision,
    Question,
    evaluate,
    forbidden_error,
)
from proxy.core.impersonation.permit import (
    IdentityRestrictions,
    Permit,
    check_proxy_identity,
    permit_impersonation,
    permit_self,
)
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo

_ALLOWED, _DENIED = CheckResult(allowed=True), CheckResult(allowed=False)


class DecisionObserver(Protocol):
    """Receives how one decision was made."""

    audit_id: bytes

    def add_reviews(self, count: int) -> None:
        """Record how many reviews were needed; not called if the cache had all results."""
        ...


class DecisionCounter(CheckCounter, Protocol):
    """Counts decisions and the check results they used."""

    def impersonation_decided(self, mode: str, *, allowed: bool, seconds: float) -> None:
        """Count one impersonation decision."""
        ...

    def cache_looked_up(self, cache: str, *, hit: bool) -> None:
        """Count a lookup in the decision cache."""
        ...

    def cached_decision(self, mode: str, seconds: float, *, has_modes: bool) -> None:
        """Count an impersonation that the cached decision of an equal request allowed."""
        ...


class ImpersonationAuthorizer:
    """Permits a request as its caller or as a user it may impersonate; rejects all others."""

    def __init__(
        self,
        *,
        rules: ImpersonationRules,
        reviewer: AccessReviewer,
        caches: ImpersonationCaches,
        counter: DecisionCounter,
        clock: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        self._rules = rules
        # The users that no caller may impersonate. No request is authorized until they are known:
        # they include the proxy's own user names, which only the API server can return.
        self.restrictions: IdentityRestrictions | None = None
        self._reviewer = reviewer
        self._caches = caches
        self._counter = counter
        self._clock = clock
        self._tasks = tasks
        self._deciding: dict[Hashable, asyncio.Task[tuple[ImpersonationDecision, int]]] = {}
        self._reusable = ReusableDecisions()

    def _forbidden(self, decision: Denied, request_info: RequestInfo) -> Forbidden:
        error = forbidden_error(decision)
        if self._rules.warns_on_discovery and not request_info.is_resource:
            error.warning = error.message
        return error

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool = False,
        observer: DecisionObserver | None = None,
    ) -> Permit:
        """Return the permit to forward; raise a StatusError if the request is rejected."""
        restrictions = self.restrictions
        if restrictions is None:
            raise UpstreamUnavailable("the API server has not been reached yet")
        check_proxy_identity(caller, wanted_user, restrictions=restrictions)
        if wanted_user is None:
            return permit_self(caller, restrictions=restrictions)
        started = self._clock()
        last_mode = self._caches.modes.get(caller.user.name)
        request = (caller, wanted_user, request_info, is_upgrade, last_mode)
        known = self._reusable.find(request)
        if known is not None and (reused := self.reauthorize(known)) is not None:
            return reused
        attempts = plan_attempts(
            caller,
            wanted_user,
            request_info,
            rules=self._rules,
            preferred_mode=last_mode,
            is_upgrade=is_upgrade,
        )
        decision, reviews = await self._decide(
            (caller, wanted_user, request_info, is_upgrade), attempts
        )
        # The restrictions may have changed meanwhile: they do with a new credential of the proxy.
        restrictions = self.restrictions or restrictions
        if reviews and observer is not None:
            observer.add_reviews(reviews)
        self._count(decision, self._clock() - started)
        match decision:
            case Allowed():
                self._caches.modes.put(caller.user.name, decision.mode)
                permit = permit_impersonation(caller, decision, restrictions=restrictions)
                if decision.mode is last_mode and decision.attempt.is_request_cacheable:
                    self._reusable.add(request, decision, restrictions, permit)
                return permit
            case Denied():
                raise self._forbidden(decision, request_info)
            case _:
                assert_never(decision)

    def reusable_decision(
        self, caller: Caller, wanted_user: UserInfo | None, request_info: RequestInfo
    ) -> ReusableDecision | None:
        """Return the decision that an equal request can reuse, if any; never for an upgrade.

        To be called right after the request was authorized.
        """
        if wanted_user is None:
            restrictions = self.restrictions
            if restrictions is None:
                return None
            return ReusableDecision(
                b"", restrictions, permit_self(caller, restrictions=restrictions)
            )
        last_mode = self._caches.modes.get(caller.user.name)
        return self._reusable.find((caller, wanted_user, request_info, False, last_mode))

    def reauthorize(self, known: ReusableDecision) -> Permit | None:
        """Return the permit for an equal request if a new decision would be the same, else None.

        The request itself is equal. Beyond it, a decision depends on the restrictions, on the mode
        that is tried first, and on the decision cache. All three are checked.
        """
        if known.restrictions is not self.restrictions:
            return None
        permit = known.permit
        mode = permit.mode
        if mode is None:
            return permit
        started = self._clock()
        caches = self._caches
        if caches.modes.get(permit.caller.user.name) is not mode:
            return None
        if not caches.decisions.contains_request(known.key):
            return None
        self._counter.cached_decision(
            mode, self._clock() - started, has_modes=self._rules.constrained
        )
        return permit

    def _count(self, decision: ImpersonationDecision, seconds: float) -> None:
        # The pre-1.35 impersonation filter, which has no modes, has no metrics.
        if self._rules.constrained:
            is_allowed = isinstance(decision, Allowed)
            mode = decision.mode if isinstance(decision, Allowed) else ""
            self._counter.impersonation_decided(mode, allowed=is_allowed, seconds=seconds)

    async def _decide(
        self, request: Hashable, attempts: Iterable[Attempt]
    ) -> tuple[ImpersonationDecision, int]:
        """Return the decision and the number of reviews it needed; without I/O if all is cached."""
        evaluation = evaluate(attempts)
        try:
            ask = self._answer_lookups(evaluation, next(evaluation))
        except StopIteration as decided:
            return decided.value, 0
        task = self._deciding.get(request)
        if task is None:
            task = self._tasks.start(self._review_remaining(evaluation, ask))
            self._deciding[request] = task
            task.add_done_callback(lambda _: self._deciding.pop(request, None))
        # Equal requests share the decision in flight; none of them can cancel it.
        return await asyncio.shield(task)

    async def _review_remaining(
        self, evaluation: Evaluation, ask: Ask
    ) -> tuple[ImpersonationDecision, int]:
        """Continue from the first check that is not cached, and cache a success."""
        prefetcher = CheckPrefetcher(
            self._reviewer, self._counter, self._clock, has_modes=self._rules.constrained
        )
        try:
            while True:
                result = await prefetcher.result_of(ask)
                ask = self._answer_lookups(evaluation, evaluation.send(result))
        except StopIteration as decided:
            decision: ImpersonationDecision = decided.value
            if isinstance(decision, Allowed):
                self._add_to_cache(decision)
            return decision, prefetcher.count
        finally:
            prefetcher.close()

    def _answer_lookups(self, evaluation: Evaluation, question: Question) -> Ask:
        """Answer cache lookups up to the first review; StopIteration ends the evaluation."""
        while isinstance(question, CacheLookup):
            question = evaluation.send(self._look_up(question))
        return question

    def _look_up(self, question: CacheLookup) -> CheckResult:
        known = self._caches.decisions.contains(question.attempt, question.scope)
        self._counter.cache_looked_up(question.scope.value, hit=known)
        return _ALLOWED if known else _DENIED

    def _add_to_cache(self, allowed: Allowed) -> None:
        for layer in allowed.cacheable:
            self._caches.decisions.add(allowed.attempt, layer)
