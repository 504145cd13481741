"""Explanation of an impersonation decision, by the plan and the evaluation that serving uses.

`explain` yields access checks and is sent their results, as `evaluate` does. Its driver sends the
checks to a cluster.
"""

from collections.abc import Generator
from typing import assert_never

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import Forbidden, StatusError
from proxy.core.explain.explanation import (
    CheckOutcome,
    ClientResponse,
    DecisionContext,
    ExplainRequest,
    Explanation,
    ModeAttempt,
    ModeOutcome,
    applicable_reason,
    inapplicable_reason,
)
from proxy.core.impersonation.checks import (
    Attempt,
    ForbiddenStep,
    WildcardCheck,
    access_check_for,
    identity_steps,
    is_pod_stream_get,
    plan_attempts,
    request_checks,
)
from proxy.core.impersonation.evaluation import (
    Allowed,
    Ask,
    Denied,
    ImpersonationDecision,
    evaluate,
    forbidden_error,
    forbidden_message,
)
from proxy.core.impersonation.modes import ImpersonationMode, impersonated_user
from proxy.core.impersonation.permit import check_proxy_identity, permit_impersonation, permit_self
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo

_NO = CheckResult(allowed=False)
NO_MODE = "no constrained mode applies to this identity, so no constrained grant can allow it"
SWITCHED_OFF = "constrained impersonation is switched off here, so no constrained grant counts"

ExplainSteps = Generator[AccessCheck, CheckResult, Explanation]


def explain(request: ExplainRequest, context: DecisionContext) -> ExplainSteps:
    """Yield the checks of serving, then those of a grant and of the target's own permission."""
    state = _ExplainState(request, context)
    if request.wanted_user is None:
        return (yield from _explain_self(request, context))
    yield from state.decide(request.wanted_user)
    yield from state.find_missing()
    own = yield from _check_target(state.impersonated_user, request.request_info, context)
    return Explanation(
        request,
        attempts=state.trials(request.wanted_user),
        mode=state.mode,
        impersonated_user=state.impersonated_user,
        target_check=own,
        response=state.error_response or _server_response(own),
        grant_mode=state.grant_mode,
        missing=tuple(state.missing),
        unsatisfiable_reason=state.unsatisfiable_reason,
    )


def _explain_self(request: ExplainRequest, context: DecisionContext) -> ExplainSteps:
    error_response, user = None, request.caller.user
    try:
        user = permit_self(request.caller, restrictions=context.restrictions).user
    except Forbidden as error:
        error_response = _proxy_response(error)
    own = yield from _check_target(user, request.request_info, context)
    response = error_response or _server_response(own)
    return Explanation(
        request, attempts=(), mode=None, impersonated_user=user, target_check=own, response=response
    )


class _ExplainState:
    """Intermediate results of an explanation. No check is sent twice."""

    def __init__(self, request: ExplainRequest, context: DecisionContext) -> None:
        self._request = request
        self._context = context
        self._attempts: list[Attempt] = []
        self._results: dict[AccessCheck, CheckResult] = {}
        self._checked: dict[ImpersonationMode, list[CheckOutcome]] = {}
        self._beyond: list[CheckOutcome] = []
        self.mode: ImpersonationMode | None = None
        self.impersonated_user = request.caller.user
        self.error_response: ClientResponse | None = None
        self.grant_mode: ImpersonationMode | None = None
        self.missing: list[AccessCheck] = []
        self.unsatisfiable_reason = ""

    def decide(self, wanted_user: UserInfo) -> Generator[AccessCheck, CheckResult, None]:
        """Drive the evaluation to its decision, and record the response to the client."""
        caller, restrictions = self._request.caller, self._context.restrictions
        # A stream by GET is always an upgrade request.
        self._attempts = list(
            plan_attempts(
                caller,
                wanted_user,
                self._request.request_info,
                rules=self._context.rules,
                is_upgrade=True,
            )
        )
        # The user that a denied request would have impersonated, as the first mode builds it.
        modes = [attempt.mode for attempt in self._attempts]
        self.impersonated_user = impersonated_user(
            modes[0] if modes else ImpersonationMode.USER_INFO, wanted_user
        )
        try:
            check_proxy_identity(caller, wanted_user, restrictions=restrictions)
        except Forbidden as error:
            self.error_response, self.unsatisfiable_reason = _proxy_response(error), error.message
            return
        decision = yield from self._evaluate()
        match decision:
            case Allowed():
                self.mode = decision.mode
                self._record_permit(decision)
            case Denied():
                self.error_response = _proxy_response(forbidden_error(decision))
            case _:
                assert_never(decision)

    def find_missing(self) -> Generator[AccessCheck, CheckResult, None]:
        """Find what the narrowest constrained mode lacks, or why none can allow this."""
        if self.unsatisfiable_reason or self.mode not in {None, ImpersonationMode.LEGACY}:
            return
        attempt = next(
            (planned for planned in self._attempts if planned.mode is not ImpersonationMode.LEGACY),
            None,
        )
        if attempt is None:
            is_on = self._context.rules.constrained
            self.unsatisfiable_reason = NO_MODE if is_on else SWITCHED_OFF
            return
        forbidden = _forbidden_step(attempt)
        if forbidden is not None:
            self.unsatisfiable_reason = forbidden.reason
            return
        self._find_obstacle(attempt)
        if not self.unsatisfiable_reason:
            self.grant_mode = attempt.mode
            yield from self._check_rest(attempt)

    def trials(self, wanted_user: UserInfo) -> tuple[ModeAttempt, ...]:
        """Return the outcome of each mode, in evaluation order."""
        return tuple(self._trial(mode, wanted_user) for mode in ImpersonationMode)

    def _trial(self, mode: ImpersonationMode, wanted_user: UserInfo) -> ModeAttempt:
        attempt = next((planned for planned in self._attempts if planned.mode is mode), None)
        if attempt is None:
            caller, rules = self._request.caller, self._context.rules
            reason = inapplicable_reason(mode, caller, wanted_user, rules)
            return ModeAttempt(mode, ModeOutcome.NOT_APPLICABLE, reason)
        forbidden = _forbidden_step(attempt)
        outcomes = tuple(self._checked.get(mode, ()))
        outcome = ModeOutcome.DENIED
        if self.mode is mode:
            outcome = ModeOutcome.ALLOWED
        elif self.mode is not None and not outcomes and forbidden is None:
            outcome = ModeOutcome.NOT_NEEDED
        reason = applicable_reason(mode, wanted_user)
        beyond = tuple(self._beyond) if mode is self.grant_mode else ()
        return ModeAttempt(
            mode, outcome, reason, outcomes, beyond, forbidden.reason if forbidden else ""
        )

    def _evaluate(self) -> Generator[AccessCheck, CheckResult, ImpersonationDecision]:
        evaluation = evaluate(self._attempts)
        try:
            step = next(evaluation)
            while True:
                # The mode cache is treated as empty: an explanation describes the current rules.
                result = _NO
                if isinstance(step, Ask):
                    result = yield from self._check(step.check)
                    outcomes = self._checked.setdefault(step.mode, [])
                    outcomes.append(CheckOutcome(step.check, result))
                step = evaluation.send(result)
        except StopIteration as decided:
            decision: ImpersonationDecision = decided.value
            return decision

    def _check(self, check: AccessCheck) -> Generator[AccessCheck, CheckResult, CheckResult]:
        result = self._results.get(check)
        if result is None:
            result = yield check
            self._results[check] = result
        return result

    def _check_beyond(
        self, mode: ImpersonationMode, check: AccessCheck
    ) -> Generator[AccessCheck, CheckResult, CheckResult]:
        result = yield from self._check(check)
        known = [*self._checked.get(mode, ()), *self._beyond]
        if all(check != recorded for recorded, _ in known):
            self._beyond.append(CheckOutcome(check, result))
        return result

    def _check_rest(self, attempt: Attempt) -> Generator[AccessCheck, CheckResult, None]:
        """Send the checks that the evaluation skipped, and keep every denied one."""
        for step in (*request_checks(attempt), *identity_steps(attempt)):
            if isinstance(step, WildcardCheck):
                # Permission for all of a kind is more than needed: each item is granted alone.
                wildcard = yield from self._check_beyond(attempt.mode, step.check)
                checks = () if wildcard.allowed else step.individual_checks()
            else:
                assert not isinstance(step, ForbiddenStep)  # `find_missing` has excluded it
                checks = (step,)
            for check in checks:
                result = yield from self._check_beyond(attempt.mode, check)
                if not result.allowed and check not in self.missing:
                    self.missing.append(check)

    def _record_permit(self, allowed: Allowed) -> None:
        """Record the impersonated user, or why the request is denied despite its permissions."""
        restrictions = self._context.restrictions
        try:
            self.impersonated_user = permit_impersonation(
                self._request.caller, allowed, restrictions=restrictions
            ).user
        except Forbidden as error:
            self.impersonated_user = allowed.impersonated_user
            self.error_response, self.unsatisfiable_reason = _proxy_response(error), error.message

    def _find_obstacle(self, attempt: Attempt) -> None:
        """Record why the request would be denied even with all permissions, if it would."""
        saved = self.error_response, self.impersonated_user
        self._record_permit(Allowed(attempt, impersonated_user(attempt.mode, attempt.wanted_user)))
        self.error_response, self.impersonated_user = saved


def _forbidden_step(attempt: Attempt) -> ForbiddenStep | None:
    steps = identity_steps(attempt)
    return next((step for step in steps if isinstance(step, ForbiddenStep)), None)


def _check_target(
    user: UserInfo, request_info: RequestInfo, context: DecisionContext
) -> Generator[AccessCheck, CheckResult, tuple[CheckOutcome, ...]]:
    verbs = [request_info.verb]
    if context.streams_need_create and is_pod_stream_get(request_info):
        verbs.append("create")
    outcomes = []
    for verb in verbs:
        check = access_check_for(request_info, verb, user=user)
        outcomes.append(CheckOutcome(check, (yield check)))
    return tuple(outcomes)


def _proxy_response(error: StatusError) -> ClientResponse:
    return ClientResponse(error.code, error.message, is_from_proxy=True)


def _server_response(own: tuple[CheckOutcome, ...]) -> ClientResponse | None:
    for check, result in own:
        if not result.allowed:
            message = forbidden_message(check, result.reason)
            return ClientResponse(Forbidden.code, message, is_from_proxy=False)
    return None
