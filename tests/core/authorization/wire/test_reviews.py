from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.authorization.decision import (
    Allow,
    Condition,
    Conditional,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Deny,
    NamedDecision,
    NoOpinion,
    Unconditional,
)
from proxy.core.authorization.folding import fold_closed
from proxy.core.authorization.rules import RULES_1_37
from proxy.core.authorization.wire.fields import InvalidReview
from proxy.core.authorization.wire.opt_in import Dialect
from proxy.core.authorization.wire.reviews import (
    REVIEW_PATHS,
    ConditionsReviewRequest,
    decode_answer,
    decode_review_request,
    decode_review_response,
    encode_answer,
    encode_review_request,
    encode_review_response,
)
from proxy.core.authorization.wire.wip import encode_decision
from tests.core.authorization.wire.documents import (
    CONDITIONAL,
    EXAMPLE,
    LEAVES,
    MAPS,
    SEED_STATUS,
    WIP_STATUS,
)

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
HEAD = {"apiVersion": "authorization.k8s.io/v1alpha1", "kind": "AuthorizationConditionsReview"}
ADMISSION: dict[str, Any] = {
    "uid": UID,
    "operation": "CREATE",
    "object": {"spec": {}},
    "oldObject": None,
}
LONG = ConditionsMap((Condition("example.com/a", "x" * 1025),), (), ())


def encode(decision: Decision, dialect: Dialect | None) -> dict[str, object]:
    return encode_answer(decision, dialect, name="webhook")


def test_an_answer_has_the_dialect_that_was_asked_for() -> None:
    union = DecisionUnion((NamedDecision("webhook", EXAMPLE),))

    assert encode(EXAMPLE, Dialect.SEED) == encode(union, Dialect.SEED) == SEED_STATUS
    assert encode(EXAMPLE, Dialect.WIP)["conditionalDecision"] == encode_decision(EXAMPLE)
    assert decode_answer(WIP_STATUS, Dialect.WIP, name="x") == DecisionUnion(
        (
            NamedDecision("system-privileged-group.authorizer.kubernetes.io", NoOpinion()),
            NamedDecision("webhook", EXAMPLE),
            NamedDecision("rbac", NoOpinion()),
        )
    )
    assert decode_answer(SEED_STATUS, Dialect.SEED, name="x") == union


@given(CONDITIONAL)
def test_an_answer_without_an_opt_in_is_folded_and_never_allowed(decision: Conditional) -> None:
    answer = encode(decision, None)

    folded = fold_closed(decision)
    assert answer["allowed"] is False
    assert ("denied" in answer) == isinstance(folded, Deny)
    assert answer["reason"] == folded.reason
    assert answer.keys() <= {"allowed", "denied", "reason"}


def test_6_3_the_fold_of_1_37_has_its_own_reason() -> None:
    answer = encode_answer(EXAMPLE, None, name="x", rules=RULES_1_37)

    assert answer == {
        "allowed": False,
        "denied": True,
        "reason": "failed closed: tried to return conditional decision to conditions-unaware"
        " authorizer",
    }


def test_what_a_dialect_cannot_express_is_folded() -> None:
    assert encode(LONG, Dialect.SEED) == encode(LONG, None)
    assert encode(LONG, Dialect.SEED)["denied"] is True
    assert "conditionalDecision" in encode(LONG, Dialect.WIP)


@given(LEAVES, st.sampled_from((None, *Dialect)))
def test_an_unconditional_answer_is_the_same_in_every_dialect(
    decision: Unconditional, dialect: Dialect | None
) -> None:
    answer = encode(decision, dialect)

    assert answer == encode(decision, None)
    assert [decode_answer(answer, one, name="x") for one in Dialect] == [decision] * 2


def test_conditions_in_another_dialect_allow_nothing() -> None:
    assert decode_answer(WIP_STATUS, Dialect.SEED, name="x") == NoOpinion()
    assert decode_answer(SEED_STATUS, Dialect.WIP, name="x") == NoOpinion()


def test_the_endpoint_has_a_path_in_each_dialect() -> None:
    assert [path.rpartition("/")[2] for path in REVIEW_PATHS.values()] == [
        "admissionconditionsreviews",
        "authorizationconditionsreviews",
    ]


@given(CONDITIONAL)
def test_a_request_of_wip_is_read_as_it_is_written(decision: Conditional) -> None:
    review = encode_review_request(decision, ADMISSION, Dialect.WIP, name="x")
    assert review is not None

    request = decode_review_request(review, Dialect.WIP, name="x")

    assert request == ConditionsReviewRequest(decision, ADMISSION)
    assert request.uid == UID


@given(MAPS)
def test_a_request_of_seed_is_read_as_it_is_written(decision: ConditionsMap) -> None:
    data = {"operation": "CREATE", "object": {"spec": {}}}
    review = encode_review_request(decision, data, Dialect.SEED, name="webhook")
    assert review is not None

    request = decode_review_request(review, Dialect.SEED, name="webhook")

    assert request.decision == DecisionUnion((NamedDecision("webhook", decision),))
    assert request.data == {**data, "options": None, "oldObject": None}
    assert request.uid == ""


def test_a_request_that_seed_cannot_express_is_not_made() -> None:
    assert encode_review_request(LONG, {}, Dialect.SEED, name="x") is None


@given(LEAVES, st.sampled_from(Dialect))
def test_a_response_is_read_as_it_is_written(decision: Unconditional, dialect: Dialect) -> None:
    review = encode_review_response(decision, dialect, uid=UID)

    assert decode_review_response(review, dialect, uid=UID) == decision


def test_an_error_beside_allow_is_kept() -> None:
    response = {"allowed": True, "evaluationError": "x"}

    decoded = decode_review_response({**HEAD, "response": response}, Dialect.SEED, uid="")

    assert decoded == Allow("", ("x",))


def answered(**members: object) -> dict[str, Any]:
    return {**HEAD, "response": {"uid": UID, **members}}


@pytest.mark.parametrize(
    ("review", "error"),
    [
        pytest.param(
            HEAD,
            "response: Required value: must be set in AuthorizationConditionsReview responses",
            id="4.3 response required",
        ),
        pytest.param(
            answered(decision=encode_decision(EXAMPLE)),
            'response.decision.type: Invalid value: "ConditionsMap": currently must evaluate to an'
            " unconditional decision",
            id="4.3 unconditional",
        ),
        pytest.param(
            answered(decision={"type": "Union", "union": []}),
            'response.decision.type: Invalid value: "Union": currently must evaluate to an'
            " unconditional decision",
            id="4.3 unconditional by type",
        ),
        pytest.param(
            {**answered(), "metadata": {"name": "x"}},
            "metadata: Invalid value: must be empty",
            id="4.3 metadata",
        ),
        pytest.param(
            {**HEAD, "response": {"uid": "other"}},
            'response.uid: Invalid value: "other": must equal request.admissionRequest.uid',
            id="wrong uid",
        ),
        pytest.param(answered(), "response.decision: Required value", id="no decision"),
        pytest.param(
            {"kind": "AuthorizationConditionsReview"},
            'apiVersion: Unsupported value: "": supported values: "authorization.k8s.io/v1alpha1"',
            id="no version",
        ),
        pytest.param(
            {**HEAD, "kind": "SubjectAccessReview"},
            'kind: Unsupported value: "SubjectAccessReview": supported values:'
            ' "AuthorizationConditionsReview"',
            id="another kind",
        ),
    ],
)
def test_a_response_that_is_not_valid(review: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidReview) as raised:
        decode_review_response(review, Dialect.WIP, uid=UID)

    assert str(raised.value) == error


def test_both_allowed_and_denied_is_not_a_response() -> None:
    review = {**HEAD, "response": {"allowed": True, "denied": True}}

    with pytest.raises(InvalidReview, match="allowed and denied are mutually exclusive"):
        decode_review_response(review, Dialect.SEED, uid="")


@pytest.mark.parametrize(
    ("request_", "dialect", "error"),
    [
        ({}, Dialect.WIP, "request: Required value"),
        ({"admissionRequest": ADMISSION}, Dialect.WIP, "request.decision: Required value"),
        (
            {"decision": {"type": "Allow", "allow": {}}},
            Dialect.WIP,
            "request.admissionRequest: Required value",
        ),
        (
            {"decision": {"type": "Allow", "allow": {}}, "admissionRequest": {}},
            Dialect.WIP,
            "request.admissionRequest.uid: Required value",
        ),
        ({"operation": "CREATE"}, Dialect.SEED, "request.conditionSets: Required value"),
    ],
)
def test_a_request_that_is_not_valid(
    request_: dict[str, Any], dialect: Dialect, error: str
) -> None:
    with pytest.raises(InvalidReview) as raised:
        decode_review_request({**HEAD, "request": request_}, dialect, name="x")

    assert str(raised.value) == error
