from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from proxy.core.authorization.conditions import make_conditions_map
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
    Outcome,
)
from proxy.core.authorization.wire.fields import InvalidReview
from proxy.core.authorization.wire.seed import decode_status, encode_chain
from tests.core.authorization.decisions import CONDITIONAL_ALLOW, CONDITIONAL_DENY, open_union
from tests.core.authorization.wire.documents import (
    CONDITIONAL,
    EXAMPLE,
    SEED_STATUS,
)

CHAIN = "status.conditionsChain"


def decode(document: dict[str, Any], *, honours_failure_mode: bool = False) -> Decision:
    return decode_status(
        document, opted_in=True, name="configured", honours_failure_mode=honours_failure_mode
    )


def chain(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "conditionsChain": list(elements)}


def element(*effects: str, **members: object) -> dict[str, Any]:
    conditions = [{"id": f"c{index}", "effect": effect} for index, effect in enumerate(effects)]
    return {"authorizerName": "webhook", "conditions": conditions, **members}


def test_the_example_is_read_and_written() -> None:
    union = DecisionUnion((NamedDecision("webhook", EXAMPLE),))

    assert decode(SEED_STATUS) == union
    assert encode_chain(union, name="x") == SEED_STATUS["conditionsChain"]


def without_what_is_lost(decision: Conditional, outer: tuple[str, ...] = ()) -> list[NamedDecision]:
    """Return what the dialect keeps: a flat chain without NoOpinion, reasons and errors."""
    assert isinstance(decision, DecisionUnion)
    kept = []
    for member in decision.members:
        names = (*outer, member.name)
        match member.decision:
            case DecisionUnion() as inner:
                kept += without_what_is_lost(inner, names)
            case ConditionsMap() as conditions:
                kept.append(NamedDecision(".".join(names), conditions))
            case NoOpinion():
                pass
            case leaf:
                kept.append(NamedDecision(".".join(names), replace(leaf, reason="", errors=())))
    return kept


@given(CONDITIONAL)
def test_sets_are_read_as_they_are_written_and_the_rest_is_flattened(
    decision: Conditional,
) -> None:
    encoded = encode_chain(decision, name="alone")
    assert encoded is not None

    decoded = decode({"conditionsChain": encoded})

    if isinstance(decision, ConditionsMap):
        assert decoded == DecisionUnion((NamedDecision("alone", decision),))
    else:
        assert decoded == DecisionUnion(tuple(without_what_is_lost(decision)))


def test_a_chain_of_conditions_and_a_leaf_is_read() -> None:
    decoded = decode(
        chain(element("Allow"), {"authorizerName": "rbac", "denied": True, "reason": "r"})
    )

    assert decoded == DecisionUnion(
        (
            NamedDecision("webhook", ConditionsMap((), (), (Condition("c0"),))),
            NamedDecision("rbac", Deny("r")),
        )
    )


def test_names_of_nested_authorizers_are_joined() -> None:
    nested = open_union(open_union(CONDITIONAL_DENY, Allow("yes")))

    encoded = encode_chain(nested, name="x")

    assert encoded is not None
    assert [one["authorizerName"] for one in encoded] == ["p.p", "p.q"]
    assert encoded[1] == {"authorizerName": "p.q", "allowed": True}


def test_no_opinion_is_left_out_of_a_chain() -> None:
    encoded = encode_chain(open_union(NoOpinion("n"), CONDITIONAL_ALLOW, Deny()), name="x")

    assert encoded is not None
    assert [one["authorizerName"] for one in encoded] == ["q", "r"]
    assert encoded[1] == {"authorizerName": "r", "denied": True}


@pytest.mark.parametrize("length", [1024, 1025])
def test_a_long_body_is_accepted_and_not_listed(length: int) -> None:
    made = make_conditions_map(allow=[Condition("example.com/a", "x" * length)])
    assert isinstance(made, ConditionsMap)
    wire = {"id": "example.com/a", "effect": "Allow", "condition": "x" * length}

    decoded = decode(chain({"authorizerName": "w", "conditions": [wire]}))

    assert decoded == DecisionUnion((NamedDecision("w", made),))
    assert (encode_chain(made, name="w") is None) == (length == 1025)


def test_what_cannot_be_flattened_has_no_chain() -> None:
    ambiguous = DecisionUnion(
        (
            NamedDecision("a.b", open_union(CONDITIONAL_ALLOW)),
            NamedDecision("a", DecisionUnion((NamedDecision("b.p", CONDITIONAL_ALLOW),))),
        )
    )
    long = DecisionUnion((NamedDecision("n" * 250, open_union(open_union(CONDITIONAL_ALLOW))),))
    wide = DecisionUnion(
        tuple(
            NamedDecision(
                f"a{outer}",
                DecisionUnion(tuple(NamedDecision(f"b{n}", CONDITIONAL_ALLOW) for n in range(33))),
            )
            for outer in range(2)
        )
    )

    assert [encode_chain(one, name="x") for one in (ambiguous, long, wide)] == [None] * 3


def test_the_drafts_own_spelling_is_accepted() -> None:
    conditions = element("Allow")["conditions"]

    decoded = decode(chain({"conditionsSet": conditions}))

    assert decoded == DecisionUnion(
        (NamedDecision("configured", ConditionsMap((), (), (Condition("c0"),))),)
    )


def test_an_element_with_nothing_set_is_no_opinion() -> None:
    decoded = decode(chain({"authorizerName": "a"}, element("Allow")))

    assert isinstance(decoded, DecisionUnion)
    assert decoded.members[0] == NamedDecision("a", NoOpinion())
    assert decode(chain()) == NoOpinion()


@pytest.mark.parametrize("effect", ["Allow", "Deny", "NoOpinion"])
def test_an_unknown_effect_closes_its_set(effect: str) -> None:
    decoded = decode(chain(element(effect, "Maybe", "allow")))
    error = 'configured: condition "c1" has the unsupported effect "Maybe"'
    error = error.replace("configured", "webhook")

    expected = Deny if effect == "Deny" else NoOpinion
    assert decoded == expected("webhook: {failed closed}", (error,))


@pytest.mark.parametrize(
    ("mode", "honours", "failure", "closed"),
    [
        ("Deny", False, None, NoOpinion),
        ("NoOpinion", False, None, NoOpinion),
        ("Deny", True, Outcome.DENY, Deny),
        ("NoOpinion", True, Outcome.NO_OPINION, NoOpinion),
        ("", True, None, NoOpinion),
    ],
)
def test_a_failure_mode_counts_if_the_configuration_says_so(
    *, mode: str, honours: bool, failure: Outcome | None, closed: type[Decision]
) -> None:
    good = decode(chain(element("Allow", failureMode=mode)), honours_failure_mode=honours)
    invalid = [
        decode(chain(element("Allow", "Maybe", failureMode=mode)), honours_failure_mode=honours),
        decode(
            chain({"failureMode": mode, "conditions": [{"id": "a/b/c", "effect": "Allow"}]}),
            honours_failure_mode=honours,
        ),
    ]

    assert isinstance(good, DecisionUnion)
    made = good.members[0].decision
    assert isinstance(made, ConditionsMap)
    assert made.failure is failure
    assert [type(one) for one in invalid] == [closed] * 2


@pytest.mark.parametrize("failure", [Outcome.DENY, Outcome.NO_OPINION])
def test_a_stated_failure_mode_is_written_and_read(failure: Outcome) -> None:
    made = replace(EXAMPLE, failure=failure)

    encoded = encode_chain(made, name="webhook")

    assert encoded is not None
    assert encoded[0]["failureMode"] == failure.value
    decoded = decode({"conditionsChain": encoded}, honours_failure_mode=True)
    assert decoded == DecisionUnion((NamedDecision("webhook", made),))


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (
            {"allowed": True, "conditionsChain": []},
            f"{CHAIN}: Forbidden: must not be set beside allowed or denied",
        ),
        (
            {"denied": True, "conditionsChain": [element("Allow")]},
            f"{CHAIN}: Forbidden: must not be set beside allowed or denied",
        ),
        (
            {"allowed": True, "denied": True},
            'status: Invalid value: "": allowed and denied are mutually exclusive',
        ),
        (
            chain({"allowed": True, "denied": True}),
            f'{CHAIN}[0]: Invalid value: "": allowed and denied are mutually exclusive',
        ),
        (
            chain(element("Allow", allowed=True)),
            f"{CHAIN}[0].conditions: Forbidden: must not be set beside allowed or denied",
        ),
        (
            chain(element("Allow", denied=True)),
            f"{CHAIN}[0].conditions: Forbidden: must not be set beside allowed or denied",
        ),
        (
            chain(element("Allow", conditionsSet=[])),
            f"{CHAIN}[0].conditionsSet: Forbidden: must not be set beside conditions",
        ),
        (
            chain(element("Allow", failureMode="Allow")),
            f'{CHAIN}[0].failureMode: Unsupported value: "Allow":'
            ' supported values: "Deny", "NoOpinion"',
        ),
        (chain(*[{}] * 65), f"{CHAIN}: Too many: 65: must have at most 64 items"),
        (
            chain({"conditions": ["x"]}),
            f"{CHAIN}[0].conditions[0]: Invalid value: must be an object",
        ),
    ],
)
def test_a_status_that_is_not_valid(document: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidReview) as raised:
        decode(document)

    assert str(raised.value) == error


def test_conditions_without_an_opt_in_are_forbidden() -> None:
    with pytest.raises(InvalidReview, match="can only be set when the client opted into"):
        decode_status(SEED_STATUS, opted_in=False, name="x")


def test_an_answer_without_a_chain_is_unconditional() -> None:
    assert decode({"allowed": True, "conditionsChain": None}) == Allow()
