import pytest

from proxy.core.authorization.decision import (
    Allow,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Deny,
    NamedDecision,
    NoOpinion,
    failure_outcome,
    list_outcomes,
    possible_outcomes,
)
from proxy.core.authorization.rules import RULES_1_37
from proxy.core.authorization.union import make_union
from tests.core.authorization.decisions import (
    CONDITIONAL_ALLOW,
    CONDITIONAL_BOTH,
    CONDITIONAL_DENY,
    condition,
    open_union,
    union_of,
)

ALLOW, DENY, NO_OPINION = Allow("ra"), Deny("rd"), NoOpinion("rn")
INVALID = (
    "invalid authorizerName: [a lowercase RFC 1123 subdomain must consist of lower case"
    " alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
    " (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]"
)


def named(*names: str, decision: Decision = CONDITIONAL_ALLOW) -> list[NamedDecision]:
    return [NamedDecision(name, decision) for name in names]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param((), NoOpinion(), id="3.4 none"),
        pytest.param(
            (NO_OPINION, NO_OPINION), NoOpinion("p: {rn}, q: {rn}"), id="3.4 NoOpinion, NoOpinion"
        ),
        pytest.param((CONDITIONAL_ALLOW, ALLOW), Allow("q: {ra}"), id="3.4 cA, Allow"),
        pytest.param((CONDITIONAL_DENY, DENY), Deny("q: {rd}"), id="3.4 cD, Deny"),
        pytest.param((ALLOW, CONDITIONAL_BOTH), Allow("p: {ra}"), id="3.4 Allow, anything"),
        pytest.param((ALLOW, DENY), Allow("p: {ra}"), id="3.4 Allow, Deny"),
    ],
)
def test_members_with_one_possible_outcome_are_that_decision(
    members: tuple[Decision, ...], expected: Decision
) -> None:
    assert union_of(*members) == expected


@pytest.mark.parametrize(
    ("members", "kept", "possible", "failure"),
    [
        pytest.param((CONDITIONAL_ALLOW,), 1, "[Allow NoOpinion]", "NoOpinion", id="3.4 cA"),
        pytest.param((CONDITIONAL_ALLOW, DENY), 2, "[Deny Allow]", "Deny", id="3.4 cA, Deny"),
        pytest.param((CONDITIONAL_DENY, ALLOW), 2, "[Deny Allow]", "Deny", id="3.4 cD, Allow"),
        pytest.param(
            (CONDITIONAL_DENY, NO_OPINION), 2, "[Deny NoOpinion]", "Deny", id="3.4 cD, NoOpinion"
        ),
        pytest.param(
            (CONDITIONAL_DENY, CONDITIONAL_ALLOW),
            2,
            "[Deny Allow NoOpinion]",
            "Deny",
            id="3.4 cD, cA",
        ),
        pytest.param((CONDITIONAL_BOTH, ALLOW), 2, "[Deny Allow]", "Deny", id="3.4 cAD, Allow"),
        pytest.param((CONDITIONAL_BOTH, DENY), 2, "[Deny Allow]", "Deny", id="3.4 cAD, Deny"),
        pytest.param(
            (open_union(CONDITIONAL_ALLOW, DENY), ALLOW),
            1,
            "[Deny Allow]",
            "Deny",
            id="3.4 [cA, Deny], Allow",
        ),
        pytest.param(
            (open_union(CONDITIONAL_DENY), union_of(ALLOW)),
            2,
            "[Deny Allow]",
            "Deny",
            id="3.4 [cD], [Allow]",
        ),
    ],
)
def test_members_with_several_possible_outcomes_stay_a_union(
    members: tuple[Decision, ...], kept: int, possible: str, failure: str
) -> None:
    made = union_of(*members)

    assert isinstance(made, DecisionUnion)
    assert [member.decision for member in made.members] == list(members[:kept])
    assert list_outcomes(possible_outcomes(made)) == possible
    assert failure_outcome(made).value == failure


def test_a_union_of_allow_alone_is_allow() -> None:
    assert union_of(ALLOW) == Allow("p: {ra}")


def test_a_union_keeps_its_nesting() -> None:
    inner = open_union(CONDITIONAL_DENY)

    assert open_union(inner).members == (NamedDecision("p", inner),)


def test_reasons_and_errors_of_nested_members_have_all_names() -> None:
    inner = union_of(CONDITIONAL_DENY, NoOpinion("n"), Deny("inner", ("x", "y")))

    assert union_of(CONDITIONAL_DENY, inner) == Deny("q: {r: {inner}}", ("q: r: [x, y]",))


def test_reasons_of_other_outcomes_and_empty_ones_are_left_out() -> None:
    assert union_of(NoOpinion("n", ("e",)), CONDITIONAL_ALLOW, Allow()) == Allow()
    assert union_of(NoOpinion("", ("e",)), NoOpinion()) == NoOpinion("", ("p: e",))


@pytest.mark.parametrize(
    ("members", "errors"),
    [
        pytest.param(
            named("p", "p"), ('duplicate authorizerName "p"',), id="3.4 cA twice under one name"
        ),
        pytest.param(named(""), ("authorizerName must be non-empty", INVALID), id="3.4 empty"),
        pytest.param(named("kubernetes.io/x"), (INVALID,), id="3.4 no DNS name"),
        pytest.param(
            named("", ""),
            ("authorizerName must be non-empty", INVALID, 'duplicate authorizerName ""'),
            id="3.4 distinct errors in order",
        ),
    ],
)
def test_3_4_1_an_invalid_name_fails_closed(
    members: list[NamedDecision], errors: tuple[str, ...]
) -> None:
    assert make_union(members) == NoOpinion("failed closed", errors)
    denying = [*members, NamedDecision("last", CONDITIONAL_DENY)]
    assert make_union(denying) == Deny("failed closed", errors)


def test_3_4_1_members_behind_a_final_one_are_not_even_validated() -> None:
    members = [NamedDecision("p", ALLOW), *named("", "p", decision=DENY)]

    assert make_union(members) == Allow("p: {ra}")


def test_3_9_names_of_1_37() -> None:
    made = make_union(named("kubernetes.io/x"), rules=RULES_1_37)
    empty = make_union(named("", ""), rules=RULES_1_37)

    assert isinstance(made, DecisionUnion)
    assert empty == NoOpinion(
        "failed closed",
        (
            "conditionalAuthorizerName must be non-empty",
            'duplicate conditionalAuthorizerName ""',
        ),
    )


def test_a_union_has_at_most_64_members() -> None:
    names = [f"a{number}" for number in range(65)]

    assert isinstance(make_union(named(*names[:64])), DecisionUnion)
    assert make_union(named(*names)) == NoOpinion(
        "failed closed", ("too many members: 65 exceeds maximum of 64",)
    )
    denying = make_union([*named(*names[:64]), NamedDecision("last", CONDITIONAL_DENY)])
    assert isinstance(denying, Deny)


def test_a_decision_is_nested_at_most_8_deep() -> None:
    decision: Decision = CONDITIONAL_BOTH
    for _ in range(7):
        decision = open_union(decision)

    assert union_of(decision) == Deny(
        "failed closed", ("decision of depth 9 exceeds the maximum of 8",)
    )


def test_a_decision_has_at_most_256_kib() -> None:
    conditions = [condition(f"c{number}", body="x" * 10000) for number in range(14)]
    large = ConditionsMap((), (), tuple(conditions))

    assert isinstance(union_of(large), DecisionUnion)
    assert union_of(large, open_union(large)) == NoOpinion(
        "failed closed", ("decision of 280401 bytes exceeds the maximum of 262144 bytes",)
    )
