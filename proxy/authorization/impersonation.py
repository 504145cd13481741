"""May the caller act as that identity, for this action? The core's plan, driven with real answers.

Answers come from the memory of successes or from the reviewer. When memory answers everything,
nothing is awaited and the decision is made in one go.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, assert_never

from proxy.authorization.check_prefetch import AccessReviewer, CheckCounter, CheckPrefetcher
from proxy.authorization.decision_cache import ImpersonationCaches, ReusableDecisions
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import CheckResult
from proxy.core.errors import UpstreamUnavailable
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

_YES, _NO = CheckResult(allowed=True), CheckResult(allowed=False)


class DecisionObserver(Protocol):
    """Learns how one decision came about."""

    audit_id: bytes

    def add_reviews(self, count: int) -> None:
        """Learn how many answers had to be asked for; not told when memory had them all."""
        ...


class DecisionCounter(CheckCounter, Protocol):
    """Counts decisions and the answers they used."""

    def impersonation_decided(self, mode: str, *, allowed: bool, seconds: float) -> None:
        """Count one impersonation."""
        ...

    def cache_looked_up(self, cache: str, *, hit: bool) -> None:
        """Count a look-up of an earlier decision."""
        ...

    def cached_decision(self, mode: str, seconds: float, *, has_modes: bool) -> None:
        """Count an impersonation that an earlier decision of an equal request allowed."""
        ...


class ImpersonationAuthorizer:
    """Admits a request as its caller or as the identity it may have; refuses all others."""

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
        # Whom nobody may be here. Until that is known (it takes the API server's word who we are)
        # nobody is admitted.
        self.restrictions: IdentityRestrictions | None = None
        self._reviewer = reviewer
        self._caches = caches
        self._counter = counter
        self._clock = clock
        self._tasks = tasks
        self._deciding: dict[Hashable, asyncio.Task[tuple[ImpersonationDecision, int]]] = {}
        self._repeatable = ReusableDecisions()

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
        restrictions = self.restrictions
        if restrictions is None:
            raise UpstreamUnavailable("the API server has not been reached yet")
        check_proxy_identity(caller, wanted_user, restrictions=restrictions)
        if wanted_user is None:
            return permit_self(caller, restrictions=restrictions)
        started = self._clock()
        remembered = self._caches.modes.get(caller.user.name)
        request = (caller, wanted_user, request_info, is_upgrade, remembered)
        known = self._repeatable.find(request)
        if known is not None and (repeated := self.reauthorize(known)) is not None:
            return repeated
        attempts = plan_attempts(
            caller,
            wanted_user,
            request_info,
            rules=self._rules,
            remembered=remembered,
            is_upgrade=is_upgrade,
        )
        decision, reviews = await self._decide(
            (caller, wanted_user, request_info, is_upgrade), attempts
        )
        # Whom nobody may be can have changed meanwhile: with a new credential of ours it has.
        restrictions = self.restrictions or restrictions
        if reviews and witness is not None:
            witness.add_reviews(reviews)
        self._count(decision, self._clock() - started)
        match decision:
            case Allowed():
                self._caches.modes.put(caller.user.name, decision.mode)
                permit = permit_impersonation(caller, decision, restrictions=restrictions)
                if decision.mode is remembered and decision.attempt.is_request_cacheable:
                    self._repeatable.keep(request, decision, restrictions, permit)
                return permit
            case Denied():
                raise forbidden_error(decision)
            case _:
                assert_never(decision)

    def reusable_decision(
        self, caller: Caller, wanted_user: UserInfo | None, request_info: RequestInfo
    ) -> ReusableDecision | None:
        """Return by what an equal request, which is no upgrade, can be admitted again, if at all.

        For use right after it was admitted.
        """
        if wanted_user is None:
            restrictions = self.restrictions
            if restrictions is None:
                return None
            return ReusableDecision(
                b"", restrictions, permit_self(caller, restrictions=restrictions)
            )
        remembered = self._caches.modes.get(caller.user.name)
        return self._repeatable.find((caller, wanted_user, request_info, False, remembered))

    def reauthorize(self, known: ReusableDecision) -> Permit | None:
        """Return the permit for an equal request if it would come out the same; None in doubt.

        Of the request everything is equal. Of the rest it depends on the guards, on which mode is
        tried first, and on the memory of successes: all three are looked at.
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
        # The filter of old, which knew no modes, had no metrics.
        if self._rules.constrained:
            is_allowed = isinstance(decision, Allowed)
            mode = decision.mode if isinstance(decision, Allowed) else ""
            self._counter.impersonation_decided(mode, allowed=is_allowed, seconds=seconds)

    async def _decide(
        self, decision: Hashable, attempts: Iterable[Attempt]
    ) -> tuple[ImpersonationDecision, int]:
        """Decide from memory at once, or with answers that have to be asked for; say how many."""
        evaluation = evaluate(attempts)
        try:
            question = self._recall_all(evaluation, next(evaluation))
        except StopIteration as decided:
            return decided.value, 0
        deciding = self._deciding.get(decision)
        if deciding is None:
            deciding = self._tasks.start(self._ask_on(evaluation, question))
            self._deciding[decision] = deciding
            deciding.add_done_callback(lambda _: self._deciding.pop(decision, None))
        # Whoever wants the same meanwhile waits for the same verdict; none of them can cancel it.
        return await asyncio.shield(deciding)

    async def _ask_on(
        self, evaluation: Evaluation, question: Ask
    ) -> tuple[ImpersonationDecision, int]:
        """Go on from the first question that memory cannot answer, and remember a success."""
        prefetcher = CheckPrefetcher(
            self._reviewer, self._counter, self._clock, has_modes=self._rules.constrained
        )
        try:
            while True:
                result = await prefetcher.result_of(question)
                question = self._recall_all(evaluation, evaluation.send(result))
        except StopIteration as decided:
            decision: ImpersonationDecision = decided.value
            if isinstance(decision, Allowed):
                self._learn(decision)
            return decision, prefetcher.count
        finally:
            prefetcher.close()

    def _recall_all(self, evaluation: Evaluation, question: Question) -> Ask:
        """Answer from memory until something has to be asked; StopIteration ends it all."""
        while isinstance(question, CacheLookup):
            question = evaluation.send(self._recall(question))
        return question

    def _recall(self, question: CacheLookup) -> CheckResult:
        known = self._caches.decisions.contains(question.attempt, question.layer)
        self._counter.cache_looked_up(question.layer.value, hit=known)
        return _YES if known else _NO

    def _learn(self, allowed: Allowed) -> None:
        for layer in allowed.cacheable:
            self._caches.decisions.add(allowed.attempt, layer)
