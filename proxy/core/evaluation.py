"""The order of asking, when to stop, and what comes out: the decision as questions and answers.

`evaluate` yields questions and is sent answers; it waits for nothing itself. Whoever drives it
brings the answers: the API server, a cache, a script of a test, a person's explanation.
"""

from collections.abc import Generator, Iterable
from enum import Enum
from typing import NamedTuple, assert_never

from proxy.core.access_check import AccessCheck
from proxy.core.identity import Identity
from proxy.core.modes import Mode, acting_identity
from proxy.core.plan import Attempt, RefusedStep, StarCheck, Step, action_checks, identity_steps

LEGACY_DISABLED = "legacy impersonation is disabled"


class Layer(Enum):
    """Which part of an attempt a short memory may vouch for."""

    REQUEST = "request"
    """All of it, for this very action."""
    IDENTITY = "identity"
    """Everything but the action."""


class Ask(NamedTuple):
    """A check to be answered by an authorizer.

    `upcoming` are checks that follow if nothing is denied, each announced once: a driver may ask
    for them ahead. They count only when they are asked here.
    """

    mode: Mode
    check: AccessCheck
    upcoming: tuple[AccessCheck, ...] = ()


class Recall(NamedTuple):
    """Is this layer of the attempt known to be allowed from a moment ago? No is always safe."""

    attempt: Attempt
    layer: Layer


Question = Ask | Recall


class Answer(NamedTuple):
    """The reply to a question. Anything but a clear yes is a no."""

    allowed: bool
    reason: str = ""
    error: str = ""


class Allowed(NamedTuple):
    """The impersonation is permitted in a mode. `learned` are the layers now worth remembering."""

    attempt: Attempt
    acting: Identity
    learned: tuple[Layer, ...] = ()

    @property
    def mode(self) -> Mode:
        """The mode that worked."""
        return self.attempt.mode


class Denied(NamedTuple):
    """No mode worked. The first failure is what the client is told, whatever followed it.

    Without a failed check there was no mode to try, and the reason says why.
    """

    first_failure: AccessCheck | None
    reason: str


Verdict = Allowed | Denied
Evaluation = Generator[Question, Answer, Verdict]


def evaluate(attempts: Iterable[Attempt]) -> Evaluation:
    """Try each attempt in turn and return the first that is allowed, or the first failure."""
    first: Denied | None = None
    for attempt in attempts:
        outcome = yield from _try(attempt)
        if isinstance(outcome, Allowed):
            return outcome
        first = first or outcome
    return first or Denied(None, LEGACY_DISABLED)


def _try(attempt: Attempt) -> Evaluation:
    if attempt.recalls_request:
        known = yield Recall(attempt, Layer.REQUEST)
        if known.allowed:
            return _allowed(attempt)
    failure = yield from _ask_all(attempt, action_checks(attempt))
    if failure is not None:
        return failure
    learned: tuple[Layer, ...] = (Layer.REQUEST,) if attempt.recalls_request else ()
    if attempt.recalls_identity:
        known = yield Recall(attempt, Layer.IDENTITY)
        if known.allowed:
            return _allowed(attempt, learned)
        learned = (Layer.IDENTITY, *learned)
    failure = yield from _ask_identity(attempt)
    return failure or _allowed(attempt, learned)


def _allowed(attempt: Attempt, learned: tuple[Layer, ...] = ()) -> Allowed:
    # The acting identity is computed anew each time and never remembered: what is shared between
    # the nodes of one agent is the permission, not the node.
    return Allowed(attempt, acting_identity(attempt.mode, attempt.wanted), learned)


def _ask_identity(attempt: Attempt) -> Generator[Question, Answer, Denied | None]:
    steps = identity_steps(attempt)
    upcoming = _first_wave(steps)[1:]
    for step in steps:
        match step:
            case RefusedStep():
                return Denied(step.check, step.reason)
            case AccessCheck():
                answer = yield Ask(attempt.mode, step, upcoming)
                if not _is_yes(attempt, answer):
                    return _denied(attempt, step, answer)
            case StarCheck():
                answer = yield Ask(attempt.mode, step.check, upcoming)
                if not _is_yes(attempt, answer):
                    failure = yield from _ask_all(attempt, step.individual_checks())
                    if failure is not None:
                        return failure
            case _:
                assert_never(step)
        upcoming = ()
    return None


def _first_wave(steps: Iterable[Step]) -> tuple[AccessCheck, ...]:
    """Return what is asked for certain unless something is denied: stars, not their items."""
    wave = []
    for step in steps:
        if isinstance(step, RefusedStep):
            break
        wave.append(step.check if isinstance(step, StarCheck) else step)
    return tuple(wave)


def _ask_all(
    attempt: Attempt, checks: Iterable[AccessCheck]
) -> Generator[Question, Answer, Denied | None]:
    wave = tuple(checks)
    upcoming = wave[1:]
    for check in wave:
        answer = yield Ask(attempt.mode, check, upcoming)
        if not _is_yes(attempt, answer):
            return _denied(attempt, check, answer)
        upcoming = ()
    return None


def _is_yes(attempt: Attempt, answer: Answer) -> bool:
    # An authorizer may stumble over one rule and allow by another. The former filter took any
    # stumbling for a no.
    return answer.allowed and (attempt.rules.constrained or not answer.error)


def _denied(attempt: Attempt, check: AccessCheck, answer: Answer) -> Denied:
    said = (answer.error, answer.reason) if attempt.rules.constrained else (answer.reason,)
    return Denied(check, ": ".join(text for text in said if text))
