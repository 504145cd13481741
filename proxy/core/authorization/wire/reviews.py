"""Answers of SubjectAccessReviews, and AuthorizationConditionsReviews, in both dialects."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from proxy.core.authorization.decision import (
    Conditional,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Unconditional,
)
from proxy.core.authorization.folding import fold_closed
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules
from proxy.core.authorization.wire import seed, wip
from proxy.core.authorization.wire.fields import (
    InvalidReview,
    JSONObject,
    invalid,
    member_list,
    member_object,
    member_text,
    not_supported,
    required,
)
from proxy.core.authorization.wire.opt_in import Dialect

REVIEW_PATHS: Mapping[Dialect, str] = MappingProxyType(
    {
        Dialect.SEED: "/apis/authorization.k8s.io/v1alpha1/admissionconditionsreviews",
        Dialect.WIP: "/apis/authorization.k8s.io/v1alpha1/authorizationconditionsreviews",
    }
)

_API_VERSION = "authorization.k8s.io/v1alpha1"
_KIND = "AuthorizationConditionsReview"
_SEED_DATA = ("operation", "options", "object", "oldObject")


@dataclass(frozen=True, slots=True)
class ConditionsReviewRequest:
    """A request to the author of conditions to evaluate them."""

    decision: Decision
    """What the authorizer decided, or the part that is still open."""
    data: JSONObject
    """The later data: an AdmissionRequest in dialect `wip`, a few members in dialect `seed`."""

    @property
    def uid(self) -> str:
        """Return the uid that pairs request and response; dialect `seed` has none."""
        return member_text(self.data, "uid", "request.admissionRequest")


def encode_answer(
    decision: Decision,
    dialect: Dialect | None,
    *,
    name: str,
    rules: AlgebraRules = RULES_1_38,
) -> dict[str, object]:
    """Return a SubjectAccessReview's status in the dialect that was asked for.

    A client that asked for no conditions, or for a dialect that cannot express them, gets the
    folded decision. It is never Allow.
    """
    match decision:
        case ConditionsMap() | DecisionUnion() if dialect is Dialect.WIP:
            return wip.encode_status(decision)
        case ConditionsMap() | DecisionUnion() if dialect is Dialect.SEED:
            chain = seed.encode_chain(decision, name=name)
            if chain is not None:
                return {"allowed": False, "conditionsChain": chain}
        case _:
            pass
    return wip.encode_outcome(fold_closed(decision, rules=rules))


def decode_answer(
    status: JSONObject,
    dialect: Dialect,
    *,
    name: str,
    honours_failure_mode: bool = False,
    rules: AlgebraRules = RULES_1_38,
) -> Decision:
    """Return the decision of an answer to a review that asked for conditions in this dialect.

    A document that is not valid raises InvalidReview. Conditions in the other dialect are not
    read: such an answer says neither allowed nor denied.
    """
    match dialect:
        case Dialect.SEED:
            return seed.decode_status(
                status,
                opted_in=True,
                name=name,
                honours_failure_mode=honours_failure_mode,
                rules=rules,
            )
        case Dialect.WIP:
            return wip.decode_status(status, opted_in=True, rules=rules)
        case _:
            assert_never(dialect)


def encode_review_request(
    decision: Conditional, data: JSONObject, dialect: Dialect, *, name: str
) -> dict[str, object] | None:
    """Return the review that asks an author to evaluate; None if the dialect cannot express it."""
    if dialect is Dialect.WIP:
        encoded = wip.encode_decision(decision)
        return _document({"request": {"decision": encoded, "admissionRequest": dict(data)}})
    sets = seed.encode_chain(decision, name=name)
    if sets is None:
        return None
    members = {member: data.get(member) for member in _SEED_DATA}
    return _document({"request": {"conditionSets": sets, **members}})


def decode_review_request(
    document: JSONObject, dialect: Dialect, *, name: str, rules: AlgebraRules = RULES_1_38
) -> ConditionsReviewRequest:
    """Return what a review asks to evaluate; raise InvalidReview if it is not valid."""
    _check_kind(document)
    request = member_object(document, "request", "") or {}
    if not request:
        required("request")
    if dialect is Dialect.SEED:
        sets = member_list(request, "conditionSets", "request", limit=rules.max_members)
        if sets is None:
            required("request.conditionSets")
        decision = seed.decode_chain(sets, "request.conditionSets", name=name, rules=rules)
        data = {member: request.get(member) for member in _SEED_DATA}
        return ConditionsReviewRequest(decision, data)
    encoded = member_object(request, "decision", "request")
    data_of = member_object(request, "admissionRequest", "request")
    if encoded is None:
        required("request.decision")
    if data_of is None:
        required("request.admissionRequest")
    if not member_text(data_of, "uid", "request.admissionRequest"):
        required("request.admissionRequest.uid")
    decision = wip.decode_decision(encoded, "request.decision", rules=rules)
    return ConditionsReviewRequest(decision, data_of)


def encode_review_response(
    decision: Unconditional, dialect: Dialect, *, uid: str
) -> dict[str, object]:
    """Return the review that answers one."""
    if dialect is Dialect.SEED:
        return _document({"response": wip.encode_outcome(decision)})
    return _document({"response": {"uid": uid, "decision": wip.encode_decision(decision)}})


def decode_review_response(document: JSONObject, dialect: Dialect, *, uid: str) -> Unconditional:
    """Return the decision of an answered review; raise InvalidReview if it is not valid.

    Only an unconditional decision for the request with this uid is valid.
    """
    _check_kind(document)
    if document.get("metadata"):
        raise InvalidReview("metadata: Invalid value: must be empty")
    response = member_object(document, "response", "")
    if response is None:
        required("response", f"must be set in {_KIND} responses")
    if dialect is Dialect.SEED:
        return wip.decode_outcome(response, "response")
    answered = member_text(response, "uid", "response")
    if answered != uid:
        invalid("response.uid", answered, "must equal request.admissionRequest.uid")
    encoded = member_object(response, "decision", "response")
    if encoded is None:
        required("response.decision")
    kind = member_text(encoded, "type", "response.decision")
    decision = wip.decode_decision(encoded, "response.decision")
    if kind in wip.CONDITIONAL_TYPES or isinstance(decision, ConditionsMap | DecisionUnion):
        detail = "currently must evaluate to an unconditional decision"
        invalid("response.decision.type", kind, detail)
    return decision


def _document(members: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": _API_VERSION, "kind": _KIND, **members}


def _check_kind(document: JSONObject) -> None:
    for member, expected in (("apiVersion", _API_VERSION), ("kind", _KIND)):
        if (stated := member_text(document, member, "")) != expected:
            not_supported(member, stated, (expected,))
