"""What a conditional decision becomes for a caller that cannot take conditions."""

from proxy.core.authorization.decision import (
    FAILED_CLOSED,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Unconditional,
    decide,
    fail_closed,
    failure_outcome,
    list_outcomes,
    possible_outcomes,
)
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules

_UNEXPECTED = (
    "tried to return an unexpected conditional decision during unconditional authorization"
)


def fold_closed(decision: Decision, *, rules: AlgebraRules = RULES_1_38) -> Unconditional:
    """Return the decision for an unaware caller. It has no error, so that the status is 403."""
    match decision:
        case ConditionsMap() | DecisionUnion():
            outcome = failure_outcome(decision)
            if not rules.names_outcomes:
                detail = "tried to return conditional decision to conditions-unaware authorizer"
                return decide(outcome, f"{FAILED_CLOSED}: {detail}")
            possible = list_outcomes(possible_outcomes(decision))
            return decide(
                outcome,
                f"{FAILED_CLOSED} from conditional decision (with possible outcomes {possible})"
                f" to {outcome.value} during unconditional authorization",
            )
        case _:
            return decision


def fold_unexpected(decision: Decision) -> Unconditional:
    """Return a decision that must be unconditional; one that is not is a programming error."""
    match decision:
        case ConditionsMap() | DecisionUnion():
            return fail_closed(decision, _UNEXPECTED)
        case _:
            return decision
