"""Impersonation authorizer: drives the evaluation of the core with real check results.

Results come from the decision cache or from the reviewer. If the cache has all of them, nothing is
awaited and the decision is made synchronously.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from proxy.authorization.access_review import AccessReviewQueue
from proxy.authorization.check_prefetch import CheckPrefetcher
from proxy.authorization.decision_cache import (
    ImpersonatedRequest,
    ImpersonationCaches,
    ResultCache,
    is_result_cacheable,
)
from proxy.authorization.pod_nodes import PodNodeResolver
from proxy.authorization.shadow import ShadowEvaluator
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import CheckResult
from proxy.core.errors import Forbidden, UpstreamUnavailable
from proxy.core.http.headers import HeaderList
from proxy.core.impersonation.cache_keys import request_key
from proxy.core.impersonation.checks import ImpersonationRules, modes_in_order, plan_attempts
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
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import (
    AuthorizationResult,
    IdentityRestrictions,
    check_proxy_identity,
    permit_impersonation,
    permit_self,
)
from proxy.core.requestinfo.list_options import DEFAULT_SELECTOR_TERMS
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo, node_name
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics


class DecisionObserver(Protocol):
    """Receives how one decision was made: the audit context, whose package is not imported here."""

    audit_id: bytes

    def add_reviews(self, count: int) -> None:
        """Record how many reviews were needed; not called if the cache had all results."""
        ...


@dataclass(frozen=True, slots=True)
class AuthorizerDependencies:
    """The dependencies of an impersonation authorizer, two of them optional."""

    reviewer: AccessReviewQueue
    counter: ImpersonationMetrics
    clock: Callable[[], float]
    tasks: TaskSet
    pod_nodes: PodNodeResolver | None = None
    """Looks up the nodes of callers whose tokens name only their pods."""
    shadow: ShadowEvaluator | None = None
    """Evaluates what legacy impersonation has allowed; it never changes a decision."""


class ImpersonationAuthorizer:
    """Permits a request as its caller or as a user it may impersonate; rejects all others."""

    def __init__(
        self,
        *,
        rules: ImpersonationRules,
        caches: ImpersonationCaches,
        dependencies: AuthorizerDependencies,
    ) -> None:
        self._rules = rules
        # The users that no caller may impersonate. No request is authorized until they are known:
        # they include the proxy's own user names, which only the API server can return.
        self.restrictions: IdentityRestrictions | None = None
        self._caches = caches
        self._reviewer = dependencies.reviewer
        self._counter = dependencies.counter
        self._clock = dependencies.clock
        self._tasks = dependencies.tasks
        self._pod_nodes = dependencies.pod_nodes
        self._shadow = dependencies.shadow
        self._deciding: dict[
            ImpersonatedRequest, asyncio.Task[tuple[ImpersonationDecision, int]]
        ] = {}
        self._results = ResultCache()

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool = False,
        observer: DecisionObserver | None = None,
    ) -> AuthorizationResult:
        """Return the permit to forward; raise a StatusError if the request is rejected."""
        pod_nodes = self._pod_nodes if _is_bare_node(wanted_user) else None
        if pod_nodes is not None:
            caller = await pod_nodes.with_node(caller)
        restrictions = self.restrictions
        if restrictions is None:
            raise UpstreamUnavailable("the API server has not been reached yet")
        check_proxy_identity(caller, wanted_user, restrictions=restrictions)
        if wanted_user is None:
            result = self._permit_caller(caller, restrictions)
        else:
            request = ImpersonatedRequest(caller, wanted_user, request_info, is_upgrade)
            result = self._results.find(request) or await self._decide(
                request, restrictions, observer
            )
        if is_upgrade or pod_nodes is not None:
            # The pod may have been replaced by the next request, so its node is looked up again.
            return AuthorizationResult(result.permit)
        return result

    def _permit_caller(
        self, caller: Caller, restrictions: IdentityRestrictions
    ) -> AuthorizationResult:
        result = self._results.find(caller)
        if result is None:
            permit = permit_self(caller, restrictions=restrictions)
            result = AuthorizationResult(permit, partial(self._has_restrictions, restrictions))
            self._results.add(caller, result)
        return result

    async def _decide(
        self,
        request: ImpersonatedRequest,
        restrictions: IdentityRestrictions,
        observer: DecisionObserver | None,
    ) -> AuthorizationResult:
        """Evaluate the request, and return the result of an allowed impersonation."""
        started = self._clock()
        username = request.caller.user.name
        last_mode = self._caches.modes.get(username)
        decision, reviews = await self._evaluate(request, last_mode)
        # The restrictions may have changed meanwhile: they do with a new credential of the proxy.
        restrictions = self.restrictions or restrictions
        if reviews and observer is not None:
            observer.add_reviews(reviews)
        self._count(decision, self._clock() - started)
        if isinstance(decision, Denied):
            raise self._forbidden(decision, request.request_info)
        self._caches.modes.put(username, decision.mode)
        permit = permit_impersonation(request.caller, decision, restrictions=restrictions)
        if self._shadow is not None and decision.mode is ImpersonationMode.LEGACY:
            self._shadow.submit(request, b"" if observer is None else observer.audit_id)
        attempt = decision.attempt
        if not is_result_cacheable(attempt):
            return AuthorizationResult(permit)
        recheck = partial(
            self._repeat_decision, request, attempt.mode, request_key(attempt), restrictions
        )
        result = AuthorizationResult(permit, recheck)
        self._results.add(request, result)
        return result

    def _forbidden(self, decision: Denied, request_info: RequestInfo) -> Forbidden:
        error = forbidden_error(decision)
        if self._rules.warns_on_discovery and not request_info.is_resource:
            error.warning = error.message
        return error

    def _repeat_decision(
        self,
        request: ImpersonatedRequest,
        mode: ImpersonationMode,
        key: bytes,
        restrictions: IdentityRestrictions,
    ) -> bool:
        """Return whether a new decision for an equal request would give the same permit.

        Beyond the request, a decision depends on the restrictions, on the mode that is tried first,
        and on the decision cache. If the allowed mode is tried first, its first and only check is
        one lookup in the decision cache.
        """
        if restrictions is not self.restrictions:
            return False
        started = self._clock()
        caches, username = self._caches, request.caller.user.name
        last_mode = caches.modes.get(username)
        if last_mode is not mode and self._first_mode(request, last_mode) is not mode:
            return False
        if not caches.decisions.contains_request(key):
            return False
        if last_mode is not mode:
            caches.modes.put(username, mode)
        self._counter.cached_decision(
            mode, self._clock() - started, has_modes=self._rules.constrained
        )
        return True

    def _first_mode(
        self, request: ImpersonatedRequest, last_mode: ImpersonationMode | None
    ) -> ImpersonationMode:
        """Return the mode that a decision tries first."""
        modes = modes_in_order(request.caller, request.wanted_user, self._rules, last_mode)
        return modes[0]

    def _has_restrictions(self, restrictions: IdentityRestrictions) -> bool:
        return restrictions is self.restrictions

    def _count(self, decision: ImpersonationDecision, seconds: float) -> None:
        # The pre-1.35 impersonation filter, which has no modes, has no metrics.
        if self._rules.constrained:
            is_allowed = isinstance(decision, Allowed)
            mode = decision.mode if isinstance(decision, Allowed) else ""
            self._counter.impersonation_decided(mode, allowed=is_allowed, seconds=seconds)

    async def _evaluate(
        self, request: ImpersonatedRequest, last_mode: ImpersonationMode | None
    ) -> tuple[ImpersonationDecision, int]:
        """Return the decision and the number of reviews it needed; without I/O if all is cached."""
        evaluation = evaluate(
            plan_attempts(
                request.caller,
                request.wanted_user,
                request.request_info,
                rules=self._rules,
                preferred_mode=last_mode,
                is_upgrade=request.is_upgrade,
            )
        )
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

    def _answer_lookups(self, evaluation: Evaluation, question: Question) -> Ask:
        """Answer cache lookups up to the first review; StopIteration ends the evaluation."""
        while isinstance(question, CacheLookup):
            is_cached = self._caches.decisions.contains(question.attempt, question.scope)
            self._counter.cache_looked_up(question.scope.value, hit=is_cached)
            question = evaluation.send(CheckResult(allowed=is_cached))
        return question

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
                for scope in decision.cacheable:
                    self._caches.decisions.add(decision.attempt, scope)
            return decision, prefetcher.count
        finally:
            prefetcher.close()


def _is_bare_node(wanted_user: UserInfo | None) -> bool:
    """Return whether only a node is wanted: for no other user does the caller's node matter."""
    return (
        wanted_user is not None
        and wanted_user.has_only_name
        and node_name(wanted_user.name) is not None
    )


@dataclass(frozen=True, slots=True)
class ImpersonationStage:
    """How requests are authorized; replaced as a whole when the rules change."""

    parse_headers: Callable[[HeaderList], UserInfo | None]
    authorizer: ImpersonationAuthorizer
    selector_terms: int = DEFAULT_SELECTOR_TERMS
    """The largest total of requirements and values in the selectors of one request."""
