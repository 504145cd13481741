"""Finding out how a decision comes about: the plan and the evaluation that serving uses.

`explain` yields checks and is sent answers, as `evaluate` does; whoever drives it asks a cluster.
"""

from collections.abc import Generator
from typing import assert_never

from proxy.core.authorization.access_check import AccessCheck, Answer
from proxy.core.errors import Forbidden, Refusal
from proxy.core.explain.explanation import (
    Asked,
    Circumstances,
    Explanation,
    Outcome,
    Request,
    Told,
    Trial,
    why_it_applies,
    why_it_does_not,
)
from proxy.core.impersonation.checks import (
    Attempt,
    RefusedStep,
    StarCheck,
    action_checks,
    check_on,
    identity_steps,
    opens_terminal,
    plan_attempts,
)
from proxy.core.impersonation.evaluation import (
    Allowed,
    Ask,
    Denied,
    Verdict,
    evaluate,
    forbidden,
    forbidden_message,
)
from proxy.core.impersonation.modes import Mode, acting_identity
from proxy.core.impersonation.permit import admit_as, admit_self, check_names
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Identity

_NO = Answer(allowed=False)
NO_MODE = "no constrained mode applies to this identity, so no constrained grant can allow it"
SWITCHED_OFF = "constrained impersonation is switched off here, so no constrained grant counts"

Telling = Generator[AccessCheck, Answer, Explanation]


def explain(request: Request, circumstances: Circumstances) -> Telling:
    """Ask whatever serving would ask, then the target's own right and what a grant would lack."""
    told = _Notes(request, circumstances)
    if request.wanted is None:
        return (yield from _explain_self(request, circumstances))
    yield from told.decide(request.wanted)
    yield from told.look_for_grant()
    own = yield from _ask_own(told.acting, request.action, circumstances)
    return Explanation(
        request,
        trials=told.trials(request.wanted),
        mode=told.mode,
        acting=told.acting,
        own=own,
        told=told.refusal or _told_by_server(own),
        grant_mode=told.grant_mode,
        missing=tuple(told.missing),
        hopeless=told.hopeless,
    )


def _explain_self(request: Request, circumstances: Circumstances) -> Telling:
    refusal, acting = None, request.caller.identity
    try:
        acting = admit_self(request.caller, guards=circumstances.guards).acting
    except Forbidden as refused:
        refusal = _told_by_us(refused)
    own = yield from _ask_own(acting, request.action, circumstances)
    told = refusal or _told_by_server(own)
    return Explanation(request, trials=(), mode=None, acting=acting, own=own, told=told)


class _Notes:
    """What is found out on the way to an explanation. No check is asked twice."""

    def __init__(self, request: Request, circumstances: Circumstances) -> None:
        self._request = request
        self._circumstances = circumstances
        self._attempts: list[Attempt] = []
        self._answers: dict[AccessCheck, Answer] = {}
        self._asked: dict[Mode, list[Asked]] = {}
        self._beyond: list[Asked] = []
        self.mode: Mode | None = None
        self.acting = request.caller.identity
        self.refusal: Told | None = None
        self.grant_mode: Mode | None = None
        self.missing: list[AccessCheck] = []
        self.hopeless = ""

    def decide(self, wanted: Identity) -> Generator[AccessCheck, Answer, None]:
        """Drive the evaluation to its verdict, and take down what the client is told of it."""
        caller, guards = self._request.caller, self._circumstances.guards
        # A stream by GET is an upgrade, or it is nothing.
        self._attempts = list(
            plan_attempts(
                caller,
                wanted,
                self._request.action,
                rules=self._circumstances.rules,
                is_upgrade=True,
            )
        )
        # Whom a denied request would have become: as the first mode makes it.
        modes = [attempt.mode for attempt in self._attempts]
        self.acting = acting_identity(modes[0] if modes else Mode.USER_INFO, wanted)
        try:
            check_names(caller, wanted, guards=guards)
        except Forbidden as refused:
            self.refusal, self.hopeless = _told_by_us(refused), refused.message
            return
        verdict = yield from self._evaluate()
        match verdict:
            case Allowed():
                self.mode = verdict.mode
                self._admit(verdict)
            case Denied():
                self.refusal = _told_by_us(forbidden(verdict))
            case _:
                assert_never(verdict)

    def look_for_grant(self) -> Generator[AccessCheck, Answer, None]:
        """Find out what the narrowest constrained mode still lacks, or why none can ever do."""
        if self.hopeless or self.mode not in {None, Mode.LEGACY}:
            return
        attempt = next((one for one in self._attempts if one.mode is not Mode.LEGACY), None)
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

    def trials(self, wanted: Identity) -> tuple[Trial, ...]:
        """Return what became of each mode, in the order of trial."""
        return tuple(self._trial(mode, wanted) for mode in Mode)

    def _trial(self, mode: Mode, wanted: Identity) -> Trial:
        attempt = next((one for one in self._attempts if one.mode is mode), None)
        if attempt is None:
            caller, rules = self._request.caller, self._circumstances.rules
            reason = why_it_does_not(mode, caller, wanted, rules)
            return Trial(mode, Outcome.NOT_APPLICABLE, reason)
        refused = _refused_step(attempt)
        asked = tuple(self._asked.get(mode, ()))
        outcome = Outcome.DENIED
        if self.mode is mode:
            outcome = Outcome.ALLOWED
        elif self.mode is not None and not asked and refused is None:
            outcome = Outcome.NOT_NEEDED
        reason = why_it_applies(mode, wanted)
        beyond = tuple(self._beyond) if mode is self.grant_mode else ()
        return Trial(mode, outcome, reason, asked, beyond, refused.reason if refused else "")

    def _evaluate(self) -> Generator[AccessCheck, Answer, Verdict]:
        evaluation = evaluate(self._attempts)
        try:
            question = next(evaluation)
            while True:
                # Nothing is known from a moment ago: an explanation is of the rules as they are.
                answer = _NO
                if isinstance(question, Ask):
                    answer = yield from self._ask(question.check)
                    asked = self._asked.setdefault(question.mode, [])
                    asked.append(Asked(question.check, answer))
                question = evaluation.send(answer)
        except StopIteration as decided:
            verdict: Verdict = decided.value
            return verdict

    def _ask(self, check: AccessCheck) -> Generator[AccessCheck, Answer, Answer]:
        answer = self._answers.get(check)
        if answer is None:
            answer = yield check
            self._answers[check] = answer
        return answer

    def _ask_beyond(self, mode: Mode, check: AccessCheck) -> Generator[AccessCheck, Answer, Answer]:
        answer = yield from self._ask(check)
        known = [*self._asked.get(mode, ()), *self._beyond]
        if all(check != one for one, _ in known):
            self._beyond.append(Asked(check, answer))
        return answer

    def _complete(self, attempt: Attempt) -> Generator[AccessCheck, Answer, None]:
        """Ask what the evaluation left out because it had stopped, and keep every no."""
        for step in (*action_checks(attempt), *identity_steps(attempt)):
            if isinstance(step, StarCheck):
                # Everything of a kind is more than what is asked for here: each is granted alone.
                star = yield from self._ask_beyond(attempt.mode, step.check)
                wave = () if star.allowed else step.individual_checks()
            else:
                assert not isinstance(step, RefusedStep)  # `look_for_grant` has looked
                wave = (step,)
            for check in wave:
                answer = yield from self._ask_beyond(attempt.mode, check)
                if not answer.allowed and check not in self.missing:
                    self.missing.append(check)

    def _admit(self, allowed: Allowed) -> None:
        """Take down whom the request becomes, or why it goes no further in spite of its rights."""
        guards = self._circumstances.guards
        try:
            self.acting = admit_as(self._request.caller, allowed, guards=guards).acting
        except Forbidden as refused:
            self.acting = allowed.acting
            self.refusal, self.hopeless = _told_by_us(refused), refused.message

    def _try_out(self, attempt: Attempt) -> None:
        """Find out what would hinder the request if the rights were there."""
        known = self.refusal, self.acting
        self._admit(Allowed(attempt, acting_identity(attempt.mode, attempt.wanted)))
        self.refusal, self.acting = known


def _refused_step(attempt: Attempt) -> RefusedStep | None:
    steps = identity_steps(attempt)
    return next((step for step in steps if isinstance(step, RefusedStep)), None)


def _ask_own(
    user: Identity, action: Action, circumstances: Circumstances
) -> Generator[AccessCheck, Answer, tuple[Asked, ...]]:
    verbs = [action.verb]
    if circumstances.streams_need_create and opens_terminal(action):
        verbs.append("create")
    asked = []
    for verb in verbs:
        check = check_on(action, verb, user=user)
        asked.append(Asked(check, (yield check)))
    return tuple(asked)


def _told_by_us(refusal: Refusal) -> Told:
    return Told(refusal.code, refusal.message, is_ours=True)


def _told_by_server(own: tuple[Asked, ...]) -> Told | None:
    for check, answer in own:
        if not answer.allowed:
            message = forbidden_message(check, answer.reason)
            return Told(Forbidden.code, message, is_ours=False)
    return None
