"""Dialect `wip`: a tagged union that has the form of the decision tree itself, without loss."""

from collections.abc import Sequence

from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    Condition,
    ConditionsMap,
    Decision,
    DecisionUnion,
    NamedDecision,
    Outcome,
    Unconditional,
    decide,
    error_text,
    outcome_of,
)
from proxy.core.authorization.rules import MAX_CONDITIONS, RULES_1_38, AlgebraRules
from proxy.core.authorization.union import make_union
from proxy.core.authorization.wire.fields import (
    MUTUALLY_EXCLUSIVE,
    JSONObject,
    forbidden,
    invalid,
    member_bool,
    member_errors,
    member_list,
    member_object,
    member_text,
    not_supported,
    object_of,
    required,
    too_many,
    without_empty,
)
from proxy.core.authorization.wire.opt_in import DECISION_TYPES
from proxy.core.gocompat.quote import go_quote

_MEMBERS = dict(
    zip(DECISION_TYPES, ("allow", "deny", "noOpinion", "conditionsMap", "union"), strict=True)
)
CONDITIONAL_TYPES = frozenset(DECISION_TYPES[3:])
_CONDITIONAL = "conditionalDecision"
_LISTS = ("denyConditions", "noOpinionConditions", "allowConditions")
_MUST_BE_STATUS = (
    "cannot be one of [Allow, Deny, NoOpinion], these decisions must be expressed using"
    " status.allowed and status.denied"
)


def decode_status(
    status: JSONObject, *, opted_in: bool, rules: AlgebraRules = RULES_1_38
) -> Decision:
    """Return the decision of a review's status; raise InvalidReview if it is not valid."""
    path = f"status.{_CONDITIONAL}"
    conditional = member_object(status, _CONDITIONAL, "status")
    if conditional is None:
        return decode_outcome(status, "status")
    if not opted_in:
        forbidden(path, "can only be set when the client opted into conditions-awareness")
    kind = member_text(conditional, "type", path)
    if kind in DECISION_TYPES[:3]:
        invalid(f"{path}.type", kind, _MUST_BE_STATUS)
    decision = decode_decision(conditional, path, rules=rules)
    where = f"when status.{_CONDITIONAL}.type={kind}"
    for name in ("allowed", "denied"):
        if member_bool(status, name, "status"):
            invalid(f"status.{name}", True, f"must be false {where}")  # noqa: FBT003 - a value
    for name in ("reason", "evaluationError"):
        if text := member_text(status, name, "status"):
            invalid(f"status.{name}", text, f"must be empty {where}")
    return decision


def decode_outcome(status: JSONObject, path: str) -> Unconditional:
    """Return the unconditional decision of `allowed`, `denied`, `reason` and `evaluationError`."""
    is_allowed = member_bool(status, "allowed", path)
    is_denied = member_bool(status, "denied", path)
    if is_allowed and is_denied:
        invalid(path, "", MUTUALLY_EXCLUSIVE)
    outcome = Outcome.NO_OPINION
    if is_allowed or is_denied:
        outcome = Outcome.ALLOW if is_allowed else Outcome.DENY
    return decide(outcome, member_text(status, "reason", path), member_errors(status, path))


def decode_decision(
    document: JSONObject, path: str, *, rules: AlgebraRules = RULES_1_38, depth: int = 1
) -> Decision:
    """Return the decision of a tagged union; raise InvalidReview if it is not valid."""
    if rules.max_depth is not None and depth > rules.max_depth:
        invalid(path, depth, f"must not be nested deeper than {rules.max_depth} levels")
    kind = _decode_kind(document, path)
    if kind == "Union":
        return _decode_union(document, path, rules=rules, depth=depth)
    member = object_of(document[_MEMBERS[kind]], f"{path}.{_MEMBERS[kind]}")
    if kind == "ConditionsMap":
        return _decode_map(member, f"{path}.conditionsMap", rules=rules)
    path = f"{path}.{_MEMBERS[kind]}"
    return decide(Outcome(kind), member_text(member, "reason", path), member_errors(member, path))


def encode_status(decision: Decision) -> dict[str, object]:
    """Return a review's status for a client that takes conditional decisions."""
    match decision:
        case ConditionsMap() | DecisionUnion():
            return {"allowed": False, _CONDITIONAL: encode_decision(decision)}
        case _:
            return encode_outcome(decision)


def encode_outcome(decision: Unconditional) -> dict[str, object]:
    """Return the status of an unconditional decision."""
    outcome = outcome_of(decision)
    denied = {"denied": True} if outcome is Outcome.DENY else {}
    texts = {"reason": decision.reason, "evaluationError": error_text(decision.errors)}
    return {"allowed": outcome is Outcome.ALLOW, **denied, **without_empty(texts)}


def encode_decision(decision: Decision) -> dict[str, object]:
    """Return a decision as a tagged union."""
    match decision:
        case DecisionUnion(members=members):
            listed = [
                {"authorizerName": one.name, "decision": encode_decision(one.decision)}
                for one in members
            ]
            return {"type": "Union", "union": listed}
        case ConditionsMap(deny=deny, no_opinion=no_opinion, allow=allow):
            lists = zip(_LISTS, (deny, no_opinion, allow), strict=True)
            encoded = {name: [_encode_condition(one) for one in listed] for name, listed in lists}
            return {"type": "ConditionsMap", "conditionsMap": without_empty(encoded)}
        case leaf:
            kind = outcome_of(leaf).value
            texts = {"reason": leaf.reason, "evaluationError": error_text(leaf.errors)}
            return {"type": kind, _MEMBERS[kind]: without_empty(texts)}


def decode_condition(value: object, path: str) -> Condition:
    """Return the condition of a JSON object. Its id and sizes are checked with its map."""
    document = object_of(value, path)
    return Condition(
        member_text(document, "id", path),
        member_text(document, "condition", path),
        member_text(document, "type", path),
        member_text(document, "description", path),
    )


def _encode_condition(condition: Condition) -> dict[str, object]:
    texts = {
        "type": condition.type,
        "condition": condition.body,
        "description": condition.description,
    }
    return {"id": condition.id, **without_empty(texts)}


def _decode_kind(document: JSONObject, path: str) -> str:
    """Return the type of a tagged union, in which exactly the member of that type is set."""
    kind = member_text(document, "type", path)
    if not kind:
        required(f"{path}.type")
    if kind not in _MEMBERS:
        not_supported(f"{path}.type", kind, DECISION_TYPES)
    for other, name in _MEMBERS.items():
        is_set = document.get(name) is not None
        if other == kind and not is_set:
            invalid(f"{path}.{name}", "", f"must be specified when `type` is {go_quote(kind)}")
        if other != kind and is_set:
            detail = f"may only be specified when `type` is {go_quote(other)}"
            invalid(f"{path}.{name}", "", detail)
    return kind


def _decode_union(document: JSONObject, path: str, *, rules: AlgebraRules, depth: int) -> Decision:
    listed = member_list(document, "union", path, limit=rules.max_members) or []
    members = []
    for index, value in enumerate(listed):
        where = f"{path}.union[{index}]"
        one = object_of(value, where)
        decision = member_object(one, "decision", where)
        if decision is None:
            required(f"{where}.decision")
        decoded = decode_decision(decision, f"{where}.decision", rules=rules, depth=depth + 1)
        members.append(NamedDecision(member_text(one, "authorizerName", where), decoded))
    return make_union(members, rules=rules)


def _decode_map(document: JSONObject, path: str, *, rules: AlgebraRules) -> Decision:
    lists: list[Sequence[Condition]] = []
    for name in _LISTS:
        listed = member_list(document, name, path) or []
        if len(listed) > MAX_CONDITIONS:
            too_many(f"{path}.{name}", len(listed), MAX_CONDITIONS)
        lists.append(
            [decode_condition(one, f"{path}.{name}[{at}]") for at, one in enumerate(listed)]
        )
    deny, no_opinion, allow = lists
    return make_conditions_map(deny, no_opinion, allow, rules=rules)
