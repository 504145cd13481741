"""Finding out how a decision comes about: the plan and the evaluation that serving uses.

`explain` yields checks and is sent answers, as `evaluate` does; whoever drives it asks a cluster.
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
    why_it_applies,
    why_it_does_not,
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


def explain(request: ExplainRequest, circumstances: DecisionContext) -> ExplainSteps:
    """Ask whatever serving would ask, then the target's own right and what a grant would lack."""
    told = _ExplainState(request, circumstances)
    if request.wanted_user is None:
        return (yield from _explain_self(request, circumstances))
    yield from told.decide(request.wanted_user)
    yield from told.look_for_grant()
    own = yield from _ask_own(told.impersonated_user, request.request_info, circumstances)
    return Explanation(
        request,
        trials=told.trials(request.wanted_user),
        mode=told.mode,
        impersonated_user=told.impersonated_user,
        target_check=own,
        response=told.refusal or _told_by_server(own),
        grant_mode=told.grant_mode,
        missing=tuple(told.missing),
        unsatisfiable_reason=told.hopeless,
    )


def _explain_self(request: ExplainRequest, circumstances: DecisionContext) -> ExplainSteps:
    refusal, acting = None, request.caller.user
    try:
        acting = permit_self(request.caller, restrictions=circumstances.restrictions).user
    except Forbidden as refused:
        refusal = _told_by_us(refused)
    own = yield from _ask_own(acting, request.request_info, circumstances)
    response = refusal or _told_by_server(own)
    return Explanation(
        request, trials=(), mode=None, impersonated_user=acting, target_check=own, response=response
    )


class _ExplainState:
    """What is found out on the way to an explanation. No check is asked twice."""

    def __init__(self, request: ExplainRequest, circumstances: DecisionContext) -> None:
        self._request = request
        self._circumstances = circumstances
        self._attempts: list[Attempt] = []
        self._answers: dict[AccessCheck, CheckResult] = {}
        self._asked: dict[ImpersonationMode, list[CheckOutcome]] = {}
        self._beyond: list[CheckOutcome] = []
        self.mode: ImpersonationMode | None = None
        self.impersonated_user = request.caller.user
        self.refusal: ClientResponse | None = None
        self.grant_mode: ImpersonationMode | None = None
        self.missing: list[AccessCheck] = []
        self.hopeless = ""

    def decide(self, wanted_user: UserInfo) -> Generator[AccessCheck, CheckResult, None]:
        """Drive the evaluation to its verdict, and take down what the client is told of it."""
        caller, restrictions = self._request.caller, self._circumstances.restrictions
        # A stream by GET is an upgrade, or it is nothing.
        self._attempts = list(
            plan_attempts(
                caller,
                wanted_user,
                self._request.request_info,
                rules=self._circumstances.rules,
                is_upgrade=True,
            )
        )
        # Whom a denied request would have become: as the first mode makes it.
        modes = [attempt.mode for attempt in self._attempts]
        self.impersonated_user = impersonated_user(
            modes[0] if modes else ImpersonationMode.USER_INFO, wanted_user
        )
        try:
            check_proxy_identity(caller, wanted_user, restrictions=restrictions)
        except Forbidden as refused:
            self.refusal, self.hopeless = _told_by_us(refused), refused.message
            return
        decision = yield from self._evaluate()
        match decision:
            case Allowed():
                self.mode = decision.mode
                self._admit(decision)
            case Denied():
                self.refusal = _told_by_us(forbidden_error(decision))
            case _:
                assert_never(decision)

    def look_for_grant(self) -> Generator[AccessCheck, CheckResult, None]:
        """Find out what the narrowest constrained mode still lacks, or why none can ever do."""
        if self.hopeless or self.mode not in {None, ImpersonationMode.LEGACY}:
            return
        attempt = next(
            (one for one in self._attempts if one.mode is not ImpersonationMode.LEGACY), None
        )
        if attempt is None:
            is_on = self._circumstances.rules.constrained
            self.hopeless = NO_MODE if is_on else SWITCHED_OFF
            return
        refused = _refused_step(attempt)
        if refused is not None:
            self.hopeless = refused.reason
            return
        self._try_out(attempt)
        if not self.hopeless:
            self.grant_mode = attempt.mode
            yield from self._complete(attempt)

    def trials(self, wanted_user: UserInfo) -> tuple[ModeAttempt, ...]:
        """Return what became of each mode, in the order of trial."""
        return tuple(self._trial(mode, wanted_user) for mode in ImpersonationMode)

    def _trial(self, mode: ImpersonationMode, wanted_user: UserInfo) -> ModeAttempt:
        attempt = next((one for one in self._attempts if one.mode is mode), None)
        if attempt is None:
            caller, rules = self._request.caller, self._circumstances.rules
            reason = why_it_does_not(mode, caller, wanted_user, rules)
            return ModeAttempt(mode, ModeOutcome.NOT_APPLICABLE, reason)
        refused = _refused_step(attempt)
        asked = tuple(self._asked.get(mode, ()))
        outcome = ModeOutcome.DENIED
        if self.mode is mode:
            outcome = ModeOutcome.ALLOWED
        elif self.mode is not None and not asked and refused is None:
            outcome = ModeOutcome.NOT_NEEDED
        reason = why_it_applies(mode, wanted_user)
        beyond = tuple(self._beyond) if mode is self.grant_mode else ()
        return ModeAttempt(mode, outcome, reason, asked, beyond, refused.reason if refused else "")

    def _evaluate(self) -> Generator[AccessCheck, CheckResult, ImpersonationDecision]:
        evaluation = evaluate(self._attempts)
        try:
            question = next(evaluation)
            while True:
                # Nothing is known from a moment ago: an explanation is of the rules as they are.
                result = _NO
                if isinstance(question, Ask):
                    result = yield from self._ask(question.check)
                    asked = self._asked.setdefault(question.mode, [])
                    asked.append(CheckOutcome(question.check, result))
                question = evaluation.send(result)
        except StopIteration as decided:
            decision: ImpersonationDecision = decided.value
            return decision

    def _ask(self, check: AccessCheck) -> Generator[AccessCheck, CheckResult, CheckResult]:
        result = self._answers.get(check)
        if result is None:
            result = yield check
            self._answers[check] = result
        return result

    def _ask_beyond(
        self, mode: ImpersonationMode, check: AccessCheck
    ) -> Generator[AccessCheck, CheckResult, CheckResult]:
        result = yield from self._ask(check)
        known = [*self._asked.get(mode, ()), *self._beyond]
        if all(check != one for one, _ in known):
            self._beyond.append(CheckOutcome(check, result))
        return result

    def _complete(self, attempt: Attempt) -> Generator[AccessCheck, CheckResult, None]:
        """Ask what the evaluation left out because it had stopped, and keep every no."""
        for step in (*request_checks(attempt), *identity_steps(attempt)):
            if isinstance(step, WildcardCheck):
                # Everything of a kind is more than what is asked for here: each is granted alone.
                star = yield from self._ask_beyond(attempt.mode, step.check)
                wave = () if star.allowed else step.individual_checks()
            else:
                assert not isinstance(step, ForbiddenStep)  # `look_for_grant` has looked
                wave = (step,)
            for check in wave:
                result = yield from self._ask_beyond(attempt.mode, check)
                if not result.allowed and check not in self.missing:
                    self.missing.append(check)

    def _admit(self, allowed: Allowed) -> None:
        """Take down whom the request becomes, or why it goes no further in spite of its rights."""
        restrictions = self._circumstances.restrictions
        try:
            self.impersonated_user = permit_impersonation(
                self._request.caller, allowed, restrictions=restrictions
            ).user
        except Forbidden as refused:
            self.impersonated_user = allowed.impersonated_user
            self.refusal, self.hopeless = _told_by_us(refused), refused.message

    def _try_out(self, attempt: Attempt) -> None:
        """Find out what would hinder the request if the rights were there."""
        known = self.refusal, self.impersonated_user
        self._admit(Allowed(attempt, impersonated_user(attempt.mode, attempt.wanted_user)))
        self.refusal, self.impersonated_user = known


def _refused_step(attempt: Attempt) -> ForbiddenStep | None:
    steps = identity_steps(attempt)
    return next((step for step in steps if isinstance(step, ForbiddenStep)), None)


def _ask_own(
    user: UserInfo, request_info: RequestInfo, circumstances: DecisionContext
) -> Generator[AccessCheck, CheckResult, tuple[CheckOutcome, ...]]:
    verbs = [request_info.verb]
    if circumstances.streams_need_create and is_pod_stream_get(request_info):
        verbs.append("create")
    asked = []
    for verb in verbs:
        check = access_check_for(request_info, verb, user=user)
        asked.append(CheckOutcome(check, (yield check)))
    return tuple(asked)


def _told_by_us(error: StatusError) -> ClientResponse:
    return ClientResponse(error.code, error.message, is_from_proxy=True)


def _told_by_server(own: tuple[CheckOutcome, ...]) -> ClientResponse | None:
    for check, result in own:
        if not result.allowed:
            message = forbidden_message(check, result.reason)
            return ClientResponse(Forbidden.code, message, is_from_proxy=False)
    return None
