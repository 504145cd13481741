from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from proxy.core.authorization.decision import (
    Allow,
    Decision,
    DecisionUnion,
    Deny,
    NamedDecision,
    NoOpinion,
)
from proxy.core.authorization.wire.fields import InvalidReview
from proxy.core.authorization.wire.wip import (
    decode_decision,
    decode_status,
    encode_decision,
    encode_status,
)
from tests.core.authorization.wire.documents import DECISIONS, EXAMPLE, WIP_STATUS

EXAMPLE_UNION = DecisionUnion(
    (
        NamedDecision("system-privileged-group.authorizer.kubernetes.io", NoOpinion()),
        NamedDecision("webhook", EXAMPLE),
        NamedDecision("rbac", NoOpinion()),
    )
)
CONDITIONAL = "status.conditionalDecision"
CONDITION = {"id": "example.com/a"}
MAP = {"type": "ConditionsMap", "conditionsMap": {"allowConditions": [CONDITION]}}


def status(**members: object) -> dict[str, Any]:
    return {"allowed": False, "conditionalDecision": deepcopy(MAP), **members}


def test_the_example_is_read_and_written() -> None:
    assert decode_status(WIP_STATUS, opted_in=True) == EXAMPLE_UNION
    assert encode_status(EXAMPLE_UNION) == WIP_STATUS


@given(DECISIONS)
def test_every_decision_is_read_as_it_is_written(decision: Decision) -> None:
    assert decode_status(encode_status(decision), opted_in=True) == decision
    assert decode_decision(encode_decision(decision), "x") == decision


@given(DECISIONS)
def test_the_same_decision_is_written_the_same(decision: Decision) -> None:
    assert repr(encode_status(decision)) == repr(encode_status(deepcopy(decision)))


@pytest.mark.parametrize(
    ("document", "decision"),
    [
        ({"allowed": True, "reason": "a"}, Allow("a")),
        ({"allowed": True, "evaluationError": "x"}, Allow("", ("x",))),
        ({"allowed": False, "denied": True, "reason": "d"}, Deny("d")),
        ({"allowed": False}, NoOpinion()),
        ({}, NoOpinion()),
        ({"allowed": False, "conditionalDecision": None, "reason": "n"}, NoOpinion("n")),
    ],
)
def test_an_unconditional_status_needs_no_opt_in(
    document: dict[str, Any], decision: Decision
) -> None:
    assert decode_status(document, opted_in=False) == decision


@pytest.mark.parametrize(
    ("document", "error"),
    [
        pytest.param(
            status(conditionalDecision={"type": "Allow", "allow": {}}),
            f'{CONDITIONAL}.type: Invalid value: "Allow": cannot be one of'
            " [Allow, Deny, NoOpinion], these decisions must be expressed using status.allowed and"
            " status.denied",
            id="4.3 unconditional type",
        ),
        pytest.param(
            status(allowed=True),
            "status.allowed: Invalid value: true: must be false when"
            " status.conditionalDecision.type=ConditionsMap",
            id="4.3 allowed",
        ),
        pytest.param(
            status(denied=True),
            "status.denied: Invalid value: true: must be false when"
            " status.conditionalDecision.type=ConditionsMap",
            id="4.3 denied",
        ),
        pytest.param(
            status(reason="r"),
            'status.reason: Invalid value: "r": must be empty when'
            " status.conditionalDecision.type=ConditionsMap",
            id="4.3 reason",
        ),
        pytest.param(
            status(evaluationError="e"),
            'status.evaluationError: Invalid value: "e": must be empty when'
            " status.conditionalDecision.type=ConditionsMap",
            id="4.3 evaluationError",
        ),
        pytest.param(
            status(conditionalDecision={"type": "ConditionsMap"}),
            f'{CONDITIONAL}.conditionsMap: Invalid value: "": must be specified when `type` is'
            ' "ConditionsMap"',
            id="4.3 member missing",
        ),
        pytest.param(
            status(conditionalDecision={**MAP, "union": []}),
            f'{CONDITIONAL}.union: Invalid value: "": may only be specified when `type` is "Union"',
            id="4.3 other member",
        ),
        pytest.param(
            status(conditionalDecision={"type": "Maybe"}),
            f'{CONDITIONAL}.type: Unsupported value: "Maybe": supported values: "Allow", "Deny",'
            ' "NoOpinion", "ConditionsMap", "Union"',
            id="4.3 unknown type",
        ),
        pytest.param(
            status(conditionalDecision={}), f"{CONDITIONAL}.type: Required value", id="no type"
        ),
        pytest.param(
            {"allowed": True, "denied": True},
            'status: Invalid value: "": allowed and denied are mutually exclusive',
            id="4.3 exclusive",
        ),
        pytest.param(
            status(
                conditionalDecision={
                    "type": "ConditionsMap",
                    "conditionsMap": {"denyConditions": [CONDITION] * 129},
                }
            ),
            f"{CONDITIONAL}.conditionsMap.denyConditions: Too many: 129: must have at most 128"
            " items",
            id="4.2 conditions of a list",
        ),
        pytest.param(
            status(conditionalDecision={"type": "Union", "union": [{}] * 65}),
            f"{CONDITIONAL}.union: Too many: 65: must have at most 64 items",
            id="4.2 members",
        ),
        pytest.param(
            status(conditionalDecision={"type": "Union", "union": [{"authorizerName": "a"}]}),
            f"{CONDITIONAL}.union[0].decision: Required value",
            id="member without a decision",
        ),
    ],
)
def test_a_status_that_is_not_valid(document: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidReview) as raised:
        decode_status(document, opted_in=True)

    assert str(raised.value) == error


def test_4_3_conditions_without_an_opt_in_are_forbidden() -> None:
    error = "Forbidden: can only be set when the client opted into conditions-awareness"

    with pytest.raises(InvalidReview, match=f"^{CONDITIONAL}: {error}$"):
        decode_status(status(), opted_in=False)


def test_4_3_names_of_a_union_are_checked_by_the_algebra() -> None:
    members = [{"authorizerName": name, "decision": MAP} for name in ("p", "p", "")]
    made = decode_status(
        status(conditionalDecision={"type": "Union", "union": members}), opted_in=True
    )

    assert isinstance(made, NoOpinion)
    assert made.errors[:2] == ('duplicate authorizerName "p"', "authorizerName must be non-empty")


def test_an_invalid_condition_is_closed_by_the_algebra() -> None:
    invalid = {"type": "ConditionsMap", "conditionsMap": {"denyConditions": [{"id": "foo"}]}}

    made = decode_status(status(conditionalDecision=invalid), opted_in=True)

    assert isinstance(made, Deny)
    assert made.reason == "failed closed"


def test_a_document_that_is_nested_too_deep_is_refused_before_it_is_read() -> None:
    document: dict[str, Any] = deepcopy(MAP)
    for _ in range(5_000):
        document = {
            "type": "Union",
            "union": [{"authorizerName": "a", "decision": document}],
        }

    with pytest.raises(InvalidReview, match="must not be nested deeper than 8 levels"):
        decode_status(status(conditionalDecision=document), opted_in=True)


def test_the_deepest_document_is_read() -> None:
    decision: Decision = EXAMPLE
    for _ in range(6):
        decision = DecisionUnion((NamedDecision("a", decision),))

    assert decode_decision(encode_decision(decision), "x") == decision
