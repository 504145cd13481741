import pytest

from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    Condition,
    ConditionsMap,
    Decision,
    Deny,
    NoOpinion,
    Outcome,
)
from proxy.core.authorization.rules import RULES_1_37, RULES_1_38
from tests.core.authorization.decisions import condition

GOOD = condition("good")
NONE = "at least one condition must be passed to ConditionsAwareDecisionConditionsMap(), got none"
DUPLICATE = 'duplicate condition ID "example.com/good"'
NEEDS_PREFIX = (
    'invalid condition: id: Invalid value: "foo": must be a domain-prefixed key'
    ' (such as "acme.io/foo")'
)


def many(count: int) -> list[Condition]:
    return [condition(f"c{number}") for number in range(count)]


def test_3_1_1_no_condition_is_no_opinion() -> None:
    assert make_conditions_map() == NoOpinion("no conditions", (NONE,))


@pytest.mark.parametrize(
    ("lists", "decision"),
    [
        ((many(129), (), ()), Deny),
        (((), many(129), ()), NoOpinion),
        (((), (), many(129)), NoOpinion),
        ((many(1), many(64), many(64)), Deny),
    ],
)
def test_3_1_2_too_many_conditions_fail_closed(
    lists: tuple[list[Condition], list[Condition], list[Condition]],
    decision: type[Deny] | type[NoOpinion],
) -> None:
    error = "too many conditions: 129 exceeds maximum of 128"

    assert make_conditions_map(*lists) == decision("failed closed", (error,))


def test_3_1_2_as_many_as_allowed_are_a_map() -> None:
    assert isinstance(make_conditions_map(many(128)), ConditionsMap)


def test_3_1_3_no_opinion_conditions_alone_are_no_opinion_and_unchecked() -> None:
    expected = NoOpinion("only NoOpinion conditions always evaluate to NoOpinion")

    assert make_conditions_map((), [Condition("a/b/c"), Condition("a/b/c")]) == expected


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        pytest.param([GOOD, GOOD], DUPLICATE, id="3.1 4a"),
        pytest.param([Condition("foo")], NEEDS_PREFIX, id="3.1 4b"),
        pytest.param(
            [Condition("a.b/c", "x" * 10241)],
            'condition "a.b/c" length 10241 is larger than the maximum allowed 10240 bytes',
            id="3.1 4c",
        ),
        pytest.param(
            [Condition("a.b/c", type="foo")],
            'invalid condition: type: Invalid value: "foo": must be a domain-prefixed key'
            ' (such as "acme.io/foo")',
            id="3.1 4d",
        ),
        pytest.param(
            [Condition("a.b/c", description="x" * 1025)],
            'condition "a.b/c" description length 1025 is larger than the maximum allowed 1024'
            " bytes",
            id="3.1 4e",
        ),
    ],
)
def test_3_1_4_an_invalid_condition_fails_closed(wrong: list[Condition], error: str) -> None:
    deny = condition("d")

    assert make_conditions_map(allow=wrong) == NoOpinion("failed closed", (error,))
    assert make_conditions_map([deny], [], wrong) == Deny("failed closed", (error,))
    assert make_conditions_map([deny], wrong, []) == Deny("failed closed", (error,))
    assert make_conditions_map(wrong) == Deny("failed closed", (error,))


def test_3_1_4a_an_id_is_unique_across_the_three_lists() -> None:
    repeated: list[Decision] = [
        make_conditions_map([GOOD], [GOOD]),
        make_conditions_map([GOOD], [], [GOOD]),
    ]

    assert repeated == [Deny("failed closed", (DUPLICATE,))] * 2
    assert make_conditions_map([], [GOOD], [GOOD]) == NoOpinion("failed closed", (DUPLICATE,))


def test_3_1_4_the_first_invalid_condition_is_reported_deny_before_allow() -> None:
    first, second = Condition("foo"), Condition("a/b/c")

    assert make_conditions_map([first], [], [second]) == Deny("failed closed", (NEEDS_PREFIX,))


def test_3_1_5_otherwise_it_is_a_map_that_keeps_lists_and_order() -> None:
    deny, no_opinion = [condition("b"), condition("a")], [condition("c")]
    made = make_conditions_map(deny, no_opinion, [GOOD])
    deny.clear()

    assert made == ConditionsMap(
        (condition("b"), condition("a")), (condition("c"),), (GOOD,), failure=None
    )


def test_1_37_accepts_ids_without_a_prefix_and_long_bodies() -> None:
    conditions = [Condition("foo", "x" * 10241)]

    assert isinstance(make_conditions_map(conditions, rules=RULES_1_37), ConditionsMap)
    assert isinstance(make_conditions_map(conditions, rules=RULES_1_38), Deny)


def test_a_map_has_a_total_size() -> None:
    large = [condition(f"c{number}", body="x" * 10000) for number in range(27)]

    made = make_conditions_map(allow=large)

    assert isinstance(made, NoOpinion)
    assert made.errors == ("conditions of 270395 bytes exceed the maximum of 262144 bytes",)
    assert isinstance(make_conditions_map(allow=large[:26]), ConditionsMap)


@pytest.mark.parametrize("failure", [Outcome.DENY, Outcome.NO_OPINION])
@pytest.mark.parametrize("wrong", [[GOOD, GOOD], many(129)])
def test_a_stated_failure_mode_replaces_the_derived_one(
    failure: Outcome, wrong: list[Condition]
) -> None:
    expected = Deny if failure is Outcome.DENY else NoOpinion

    assert isinstance(make_conditions_map(wrong, failure=failure), expected)
    assert isinstance(make_conditions_map(allow=wrong, failure=failure), expected)
