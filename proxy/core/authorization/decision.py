"""Authorization decisions that may be conditional (KEP-5681), and the errors that they carry.

A decision is one of five variants. Three are unconditional. A `ConditionsMap` has the conditions of
one authorizer, a `DecisionUnion` the decisions of several. Only `conditions.py` and `union.py`
build these two, because they check what a valid one must satisfy.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

Errors = tuple[str, ...]
"""The texts of one error: none, one, or the distinct texts of an aggregate in their order."""

NO_ERRORS: Errors = ()
FAILED_CLOSED = "failed closed"


def aggregate_errors(errors: Iterable[Errors]) -> Errors:
    """Return one error for several. Nested aggregates are flattened, repeated texts dropped."""
    return tuple(dict.fromkeys(text for texts in errors for text in texts))


def error_text(errors: Errors) -> str:
    """Return an error as kube-apiserver prints it: one text bare, several in brackets."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""


def prefix_error(prefix: str, errors: Errors) -> Errors:
    """Return an error with a prefix. It is one text: an aggregate inside keeps its brackets."""
    return (f"{prefix}: {error_text(errors)}",) if errors else NO_ERRORS


class Outcome(Enum):
    """What an authorizer can decide, in the order in which kube-apiserver lists it."""

    DENY = "Deny"
    ALLOW = "Allow"
    NO_OPINION = "NoOpinion"


@dataclass(frozen=True, slots=True)
class Allow:
    """The request is allowed. An error beside it does not matter to the request."""

    reason: str = ""
    errors: Errors = NO_ERRORS


@dataclass(frozen=True, slots=True)
class Deny:
    """The request is denied, and no later authorizer is asked."""

    reason: str = ""
    errors: Errors = NO_ERRORS


@dataclass(frozen=True, slots=True)
class NoOpinion:
    """The authorizer leaves the decision to later ones."""

    reason: str = ""
    errors: Errors = NO_ERRORS


class Truth(Enum):
    """The results of evaluating a condition without an error."""

    TRUE = "true"
    FALSE = "false"
    UNEVALUATABLE = "unevaluatable"
    """This evaluator cannot evaluate it: another one must."""


@dataclass(frozen=True, slots=True)
class FailedEvaluation:
    """A condition was evaluated to an error."""

    text: str = "unspecified evaluation error"


ConditionResult = Truth | FailedEvaluation
ConditionsData = Mapping[str, object]
"""The data that conditions are evaluated with, by name: `object`, `oldObject`, `options` and so on.

Nothing else may influence a result: no policy store, no clock.
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """A pure function of the later data. Its effect is the list of the map that it is in."""

    id: str
    body: str = ""
    type: str = ""
    description: str = ""
    evaluate: Callable[[ConditionsData], ConditionResult] | None = field(
        default=None, repr=False, compare=False
    )
    """Its own evaluator. Without one it is unevaluatable."""


@dataclass(frozen=True, slots=True)
class ConditionsMap:
    """The conditions of one authorizer by effect; deny or allow is not empty."""

    deny: tuple[Condition, ...]
    no_opinion: tuple[Condition, ...]
    allow: tuple[Condition, ...]
    failure: Outcome | None = None
    """A failure mode that the authorizer stated (dialect `seed`), instead of the derived one."""


@dataclass(frozen=True, slots=True)
class NamedDecision:
    """A member of a union: an authorizer's name, unique in the union, and its decision."""

    name: str
    decision: "Decision"


@dataclass(frozen=True, slots=True)
class DecisionUnion:
    """The decisions of several authorizers in the order in which they decide."""

    members: tuple[NamedDecision, ...]


Unconditional = Allow | Deny | NoOpinion
Conditional = ConditionsMap | DecisionUnion
Decision = Unconditional | Conditional

VARIANTS: Mapping[Outcome, type[Allow] | type[Deny] | type[NoOpinion]] = {
    Outcome.ALLOW: Allow,
    Outcome.DENY: Deny,
    Outcome.NO_OPINION: NoOpinion,
}


def decide(outcome: Outcome, reason: str = "", errors: Errors = NO_ERRORS) -> Unconditional:
    """Return the unconditional decision with this outcome."""
    return VARIANTS[outcome](reason, errors)


def outcome_of(decision: Unconditional) -> Outcome:
    """Return the outcome of an unconditional decision."""
    match decision:
        case Allow():
            return Outcome.ALLOW
        case Deny():
            return Outcome.DENY
        case NoOpinion():
            return Outcome.NO_OPINION
        case _:
            assert_never(decision)


def possible_outcomes(decision: Decision) -> frozenset[Outcome]:
    """Return what a decision can become. For a union it may be more than it really can."""
    match decision:
        case ConditionsMap(deny=deny, allow=allow):
            possible = {Outcome.NO_OPINION}
            possible |= {Outcome.DENY} if deny else set()
            possible |= {Outcome.ALLOW} if allow else set()
            return frozenset(possible)
        case DecisionUnion(members=members):
            return possible_outcomes_of(members)
        case _:
            return frozenset((outcome_of(decision),))


def possible_outcomes_of(members: Iterable[NamedDecision]) -> frozenset[Outcome]:
    """Return what a union of these members can become."""
    possible, is_final = {Outcome.NO_OPINION}, False
    for member in members:
        possible |= possible_outcomes(member.decision)
        is_final = is_final or has_final_leaf(member.decision)
    # The last of these members decides if no other does, so that no request is left undecided.
    return frozenset(possible - {Outcome.NO_OPINION} if is_final else possible)


def list_outcomes(possible: Iterable[Outcome]) -> str:
    """Return outcomes as kube-apiserver prints them, for example `[Deny NoOpinion]`."""
    present = frozenset(possible)
    return f"[{' '.join(outcome.value for outcome in Outcome if outcome in present)}]"


def failure_outcome(decision: Decision) -> Outcome:
    """Return what a decision becomes if it cannot be evaluated: Deny if that is possible."""
    if isinstance(decision, ConditionsMap) and decision.failure is not None:
        return decision.failure
    return failure_among(possible_outcomes(decision))


def failure_among(possible: frozenset[Outcome]) -> Outcome:
    """Return the failure decision of something with these possible outcomes."""
    return Outcome.DENY if Outcome.DENY in possible else Outcome.NO_OPINION


def fail_closed(decision: Decision, error: str) -> Unconditional:
    """Return the failure decision of a decision, with the error that prevents its evaluation."""
    return decide(failure_outcome(decision), FAILED_CLOSED, (error,))


def has_final_leaf(decision: Decision) -> bool:
    """Return whether an unconditional Allow or Deny is anywhere in the tree."""
    match decision:
        case Allow() | Deny():
            return True
        case NoOpinion() | ConditionsMap():
            return False
        case DecisionUnion(members=members):
            return any(has_final_leaf(member.decision) for member in members)
        case _:
            assert_never(decision)
