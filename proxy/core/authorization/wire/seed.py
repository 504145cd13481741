"""Dialect `seed`: a flat chain of sets, in which each condition has its effect as a member.

A set is encoded without loss. Of the rest, names of nested authorizers are joined by dots, members
without an opinion are left out, and so are reasons and errors. What cannot be expressed is folded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    FAILED_CLOSED,
    Allow,
    Condition,
    Conditional,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Deny,
    NamedDecision,
    NoOpinion,
    Outcome,
    decide,
)
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules, subdomain_errors
from proxy.core.authorization.union import make_union
from proxy.core.authorization.wire.fields import (
    JSONObject,
    forbidden,
    member_list,
    member_text,
    not_supported,
    object_of,
    without_empty,
)
from proxy.core.authorization.wire.wip import decode_condition, decode_outcome
from proxy.core.gocompat.quote import go_quote

MAX_BODY_BYTES = 1024
"""The longest condition that this dialect lists; longer ones are accepted from others."""

_CHAIN = "conditionsChain"
_FAILURE_MODES = {"Deny": Outcome.DENY, "NoOpinion": Outcome.NO_OPINION}
_Listed = ConditionsMap | Allow | Deny
_EFFECTS = {outcome.value: outcome for outcome in Outcome}


def decode_status(
    status: JSONObject,
    *,
    opted_in: bool,
    name: str,
    honours_failure_mode: bool = False,
    rules: AlgebraRules = RULES_1_38,
) -> Decision:
    """Return the decision of a review's status; raise InvalidReview if it is not valid.

    `name` is the configured name of the authorizer, for a set that has none. The stated failure
    mode of a set replaces the derived one only if the configuration says so.
    """
    chain = member_list(status, _CHAIN, "status", limit=rules.max_members)
    outcome = decode_outcome(status, "status")
    if chain is None:
        return outcome
    path = f"status.{_CHAIN}"
    if not opted_in:
        forbidden(path, "can only be set when the client opted into conditions-awareness")
    if not isinstance(outcome, NoOpinion):
        forbidden(path, "must not be set beside allowed or denied")
    return decode_chain(
        chain, path, name=name, honours_failure_mode=honours_failure_mode, rules=rules
    )


def decode_chain(
    chain: Iterable[object],
    path: str,
    *,
    name: str,
    honours_failure_mode: bool = False,
    rules: AlgebraRules = RULES_1_38,
) -> Decision:
    """Return the union of a chain's elements; raise InvalidReview if one is not valid."""
    # This dialect requires no domain in an id.
    of_set = replace(rules, needs_prefix=False)
    members = []
    for index, value in enumerate(chain):
        where = f"{path}[{index}]"
        element = object_of(value, where)
        decision = _decode_element(
            element, where, honours_failure_mode=honours_failure_mode, rules=of_set
        )
        listed_name = member_text(element, "authorizerName", where)
        members.append(NamedDecision(listed_name or name, decision))
    return make_union(members, rules=rules)


def encode_chain(decision: Conditional, *, name: str) -> list[dict[str, object]] | None:
    """Return a decision as a chain; None if this dialect cannot express it.

    `name` is that of the authorizer if the decision is not a union.
    """
    named = NamedDecision(name, decision)
    members = list(_flatten((), (named,) if isinstance(decision, ConditionsMap) else _of(decision)))
    names = [member for member, _ in members]
    is_expressible = (
        len(set(names)) == len(names)
        and len(names) <= (RULES_1_38.max_members or 0)
        and not any(map(subdomain_errors, names))
        and not any(_is_too_long(member) for _, member in members)
    )
    return [_encode_element(*member) for member in members] if is_expressible else None


def _of(decision: Conditional) -> tuple[NamedDecision, ...]:
    return decision.members if isinstance(decision, DecisionUnion) else ()


def _flatten(
    outer: tuple[str, ...], members: Iterable[NamedDecision]
) -> Iterator[tuple[str, _Listed]]:
    for member in members:
        names = (*outer, member.name)
        match member.decision:
            case DecisionUnion(members=inner):
                yield from _flatten(names, inner)
            case NoOpinion():
                pass
            case leaf:
                yield ".".join(names), leaf


def _is_too_long(decision: _Listed) -> bool:
    if not isinstance(decision, ConditionsMap):
        return False
    conditions = (*decision.deny, *decision.no_opinion, *decision.allow)
    return any(
        len(one.body.encode("utf-8", "surrogatepass")) > MAX_BODY_BYTES for one in conditions
    )


def _encode_element(name: str, decision: _Listed) -> dict[str, object]:
    match decision:
        case ConditionsMap(deny=deny, no_opinion=no_opinion, allow=allow, failure=failure):
            derived = Outcome.DENY if deny else Outcome.NO_OPINION
            return {
                "authorizerName": name,
                "failureMode": (failure or derived).value,
                "conditions": [
                    _encode_condition(one, effect)
                    for effect, listed in (
                        (Outcome.DENY, deny),
                        (Outcome.NO_OPINION, no_opinion),
                        (Outcome.ALLOW, allow),
                    )
                    for one in listed
                ],
            }
        case Allow():
            return {"authorizerName": name, "allowed": True}
        case _:
            return {"authorizerName": name, "denied": True}


def _encode_condition(condition: Condition, effect: Outcome) -> dict[str, object]:
    texts = {
        "type": condition.type,
        "condition": condition.body,
        "description": condition.description,
    }
    return {"id": condition.id, "effect": effect.value, **without_empty(texts)}


def _decode_element(
    element: JSONObject, path: str, *, honours_failure_mode: bool, rules: AlgebraRules
) -> Decision:
    """Return the decision of an element: `allowed`, `denied` or conditions, of which one is set."""
    mode = member_text(element, "failureMode", path)
    if mode and mode not in _FAILURE_MODES:
        not_supported(f"{path}.failureMode", mode, tuple(_FAILURE_MODES))
    outcome = decode_outcome(element, path)
    conditions = member_list(element, "conditions", path)
    # The draft's own example has this name.
    other = member_list(element, "conditionsSet", path)
    if conditions is not None and other is not None:
        forbidden(f"{path}.conditionsSet", "must not be set beside conditions")
    conditions = other if conditions is None else conditions
    if conditions is None:
        return outcome
    if not isinstance(outcome, NoOpinion):
        forbidden(f"{path}.conditions", "must not be set beside allowed or denied")
    failure = _FAILURE_MODES.get(mode) if honours_failure_mode else None
    return _decode_set(conditions, f"{path}.conditions", failure=failure, rules=rules)


def _decode_set(
    values: list[object], path: str, *, failure: Outcome | None, rules: AlgebraRules
) -> Decision:
    by_effect: dict[Outcome, list[Condition]] = {outcome: [] for outcome in Outcome}
    error = ""
    for index, value in enumerate(values):
        where = f"{path}[{index}]"
        condition = decode_condition(value, where)
        effect = member_text(object_of(value, where), "effect", where)
        if effect in _EFFECTS:
            by_effect[_EFFECTS[effect]].append(condition)
        elif not error:
            quoted = go_quote(effect)
            error = f"condition {go_quote(condition.id)} has the unsupported effect {quoted}"
    deny = by_effect[Outcome.DENY]
    if error:
        derived = Outcome.DENY if deny else Outcome.NO_OPINION
        return decide(failure or derived, FAILED_CLOSED, (error,))
    return make_conditions_map(
        deny,
        by_effect[Outcome.NO_OPINION],
        by_effect[Outcome.ALLOW],
        rules=rules,
        failure=failure,
    )
