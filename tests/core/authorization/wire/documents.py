"""Decisions in JSON, as the reference's examples have them, and strategies for decisions."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    Condition,
    ConditionsMap,
    Decision,
    DecisionUnion,
    NamedDecision,
    Outcome,
    decide,
    error_text,
)
from proxy.core.authorization.union import make_union

CEL = "k8s.io/authorization-cel"
FROZEN = "object.metadata.?labels[?'frozen'].orValue('') == 'true'"
DEV_ONLY = 'object.spec.storageClassName == "dev"'
EXAMPLE = ConditionsMap(
    (Condition("example.com/frozen", FROZEN, CEL),),
    (),
    (Condition("example.com/dev-only", DEV_ONLY, CEL, "dev class only"),),
)
WIP_STATUS: dict[str, Any] = {
    "allowed": False,
    "conditionalDecision": {
        "type": "Union",
        "union": [
            {
                "authorizerName": "system-privileged-group.authorizer.kubernetes.io",
                "decision": {"type": "NoOpinion", "noOpinion": {}},
            },
            {
                "authorizerName": "webhook",
                "decision": {
                    "type": "ConditionsMap",
                    "conditionsMap": {
                        "denyConditions": [
                            {"id": "example.com/frozen", "type": CEL, "condition": FROZEN}
                        ],
                        "allowConditions": [
                            {
                                "id": "example.com/dev-only",
                                "type": CEL,
                                "condition": DEV_ONLY,
                                "description": "dev class only",
                            }
                        ],
                    },
                },
            },
            {"authorizerName": "rbac", "decision": {"type": "NoOpinion", "noOpinion": {}}},
        ],
    },
}
SEED_STATUS: dict[str, Any] = {
    "allowed": False,
    "conditionsChain": [
        {
            "authorizerName": "webhook",
            "failureMode": "Deny",
            "conditions": [
                {"id": "example.com/frozen", "effect": "Deny", "type": CEL, "condition": FROZEN},
                {
                    "id": "example.com/dev-only",
                    "effect": "Allow",
                    "type": CEL,
                    "condition": DEV_ONLY,
                    "description": "dev class only",
                },
            ],
        }
    ],
}

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
# On the wire an error is one text, and an empty one is none.
ERRORS = TEXTS.map(lambda text: (text,) if text else ())
LEAVES = st.builds(decide, st.sampled_from(Outcome), TEXTS, ERRORS)
CONDITIONS = st.builds(
    Condition,
    id=st.sampled_from("abcdefghij").map("example.com/{}".format),
    body=TEXTS,
    type=st.sampled_from(("", CEL, "example.com/opaque")),
    description=TEXTS,
)
_LISTS = st.lists(CONDITIONS, max_size=6, unique_by=lambda one: one.id).flatmap(
    lambda listed: st.tuples(
        st.just(listed), st.integers(0, len(listed)), st.integers(0, len(listed))
    )
)


def _as_map(drawn: tuple[list[Condition], int, int]) -> Decision:
    listed, first, second = drawn
    start, end = sorted((first, second))
    return make_conditions_map(listed[:start], listed[start:end], listed[end:])


MAPS = _LISTS.map(_as_map).filter(lambda one: isinstance(one, ConditionsMap))


def _as_union(members: list[Decision]) -> Decision:
    return make_union(
        NamedDecision(name, one) for name, one in zip("pqrstu", members, strict=False)
    )


def _with_one_text(decision: Decision) -> Decision:
    """Return a decision whose errors are one text each, as they are on the wire."""
    match decision:
        case ConditionsMap():
            return decision
        case DecisionUnion(members=members):
            return DecisionUnion(
                tuple(NamedDecision(one.name, _with_one_text(one.decision)) for one in members)
            )
        case leaf:
            text = error_text(leaf.errors)
            return replace(leaf, errors=(text,) if text else ())


DECISIONS: st.SearchStrategy[Decision] = st.recursive(
    st.one_of(LEAVES, MAPS), lambda inner: st.lists(inner, max_size=4).map(_as_union), max_leaves=8
).map(_with_one_text)
CONDITIONAL = st.one_of(MAPS, DECISIONS).filter(
    lambda one: isinstance(one, ConditionsMap | DecisionUnion)
)
