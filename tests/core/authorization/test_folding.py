import pytest

from proxy.core.authorization.decision import Allow, Decision, Deny, NoOpinion, Unconditional
from proxy.core.authorization.folding import fold_closed, fold_unexpected
from proxy.core.authorization.rules import RULES_1_37
from tests.core.authorization.decisions import (
    CONDITIONAL_ALLOW,
    CONDITIONAL_BOTH,
    CONDITIONAL_DENY,
    open_union,
)

FOLDED = "failed closed from conditional decision (with possible outcomes {}) to {} during"


@pytest.mark.parametrize("decision", [Allow("a", ("x",)), Deny("b"), NoOpinion("c")])
def test_an_unconditional_decision_is_not_changed(decision: Unconditional) -> None:
    assert fold_closed(decision) == decision
    assert fold_closed(decision, rules=RULES_1_37) == decision
    assert fold_unexpected(decision) == decision


@pytest.mark.parametrize(
    ("decision", "possible", "folded"),
    [
        (CONDITIONAL_ALLOW, "[Allow NoOpinion]", NoOpinion),
        (CONDITIONAL_DENY, "[Deny NoOpinion]", Deny),
        (CONDITIONAL_BOTH, "[Deny Allow NoOpinion]", Deny),
        (open_union(CONDITIONAL_DENY, Allow()), "[Deny Allow]", Deny),
    ],
)
def test_3_7_a_conditional_decision_never_becomes_allow(
    decision: Decision, possible: str, folded: type[Deny] | type[NoOpinion]
) -> None:
    reason = FOLDED.format(possible, folded.__name__) + " unconditional authorization"

    assert fold_closed(decision) == folded(reason)


def test_3_7_the_programming_error_has_an_error() -> None:
    error = "tried to return an unexpected conditional decision during unconditional authorization"

    assert fold_unexpected(CONDITIONAL_DENY) == Deny("failed closed", (error,))
    assert fold_unexpected(CONDITIONAL_ALLOW) == NoOpinion("failed closed", (error,))


def test_3_7_the_reason_of_1_37() -> None:
    reason = "failed closed: tried to return conditional decision to conditions-unaware authorizer"

    assert fold_closed(CONDITIONAL_BOTH, rules=RULES_1_37) == Deny(reason)
    assert fold_closed(CONDITIONAL_ALLOW, rules=RULES_1_37) == NoOpinion(reason)
