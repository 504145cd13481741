import itertools
from dataclasses import replace

import pytest

from proxy.core.authorization.decision import (
    Allow,
    Condition,
    ConditionsMap,
    Decision,
    Deny,
    NoOpinion,
    Outcome,
    Truth,
)
from proxy.core.authorization.evaluation import evaluate_map
from proxy.core.authorization.residuals import PolicyResult, decide_from_policies
from proxy.core.authorization.rules import RULES_1_37
from tests.core.authorization.decisions import ALLOW, DATA, DENY, NO_OPINION, condition, ids


def certain(effect: Outcome, name: str) -> PolicyResult:
    return PolicyResult(effect, condition(name), is_unconditional=True)


def open_(effect: Outcome, name: str) -> PolicyResult:
    return PolicyResult(effect, condition(name))


D, N, A = certain(DENY, "d"), certain(NO_OPINION, "n"), certain(ALLOW, "a")
CD, CN, CA = open_(DENY, "cd"), open_(NO_OPINION, "cn"), open_(ALLOW, "ca")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param(
            [CA, A, CN, N, CD, D],
            Deny('condition "example.com/d" denied the request'),
            id="9.4 an unconditional Deny",
        ),
        pytest.param(
            [A, CN, N, CA],
            NoOpinion('condition "example.com/n" evaluated to NoOpinion'),
            id="9.4 an unconditional NoOpinion, no conditional Deny",
        ),
        pytest.param(
            [CA, A],
            Allow('condition "example.com/a" allowed the request'),
            id="9.4 an unconditional Allow, no conditional Deny or NoOpinion",
        ),
        pytest.param(
            [CN],
            NoOpinion("only NoOpinion conditions always evaluate to NoOpinion"),
            id="9.4 NoOpinion conditions alone",
        ),
        pytest.param([], NoOpinion(), id="9.4 nothing"),
    ],
)
def test_results_that_are_decided(results: list[PolicyResult], expected: Decision) -> None:
    assert decide_from_policies(results) == expected
    assert decide_from_policies(reversed(results)) == expected


@pytest.mark.parametrize(
    ("results", "left"),
    [
        pytest.param(
            [N, CD, CA, A, CN],
            (["cd"], [], []),
            id="9.4 an unconditional NoOpinion and a conditional Deny",
        ),
        pytest.param(
            [A, CD, CA], (["cd"], [], ["a"]), id="9.4 an unconditional Allow, a conditional Deny"
        ),
        pytest.param(
            [A, CN, CA],
            ([], ["cn"], ["a"]),
            id="9.4 an unconditional Allow, a conditional NoOpinion",
        ),
        pytest.param([CA, CN, CD], (["cd"], ["cn"], ["ca"]), id="9.4 conditions only"),
    ],
)
def test_results_that_stay_conditional(
    results: list[PolicyResult], left: tuple[list[str], ...]
) -> None:
    assert ids(decide_from_policies(results)) == left


def test_an_unconditional_allow_becomes_a_condition_that_is_true() -> None:
    made = decide_from_policies([A, CD])
    assert isinstance(made, ConditionsMap)

    assert made.allow == (replace(condition("a"), body="true"),)
    allowed = evaluate_map(made, DATA, lambda one, data: False)
    assert allowed == Allow('condition "example.com/a" allowed the request')


STRENGTH = (D, CD, N, CN, A, CA)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(STRENGTH, repeat=2)))
def test_the_stronger_of_two_results_shows_in_the_decision(
    first: PolicyResult, second: PolicyResult
) -> None:
    first = PolicyResult(
        first.effect,
        replace(first.condition, id=first.condition.id + "-1"),
        is_unconditional=first.is_unconditional,
    )
    stronger = min(first, second, key=lambda one: [r.effect for r in STRENGTH].index(one.effect))
    results = [first, second]

    decided = decide_from_policies(results)

    certain_effects = {one.effect for one in results if one.is_unconditional}
    if DENY in certain_effects:
        assert isinstance(decided, Deny)
    elif any(one.effect is DENY for one in results):
        assert isinstance(decided, ConditionsMap)
        assert decided.deny
    elif stronger.effect is NO_OPINION and (
        NO_OPINION in certain_effects or all(one.effect is NO_OPINION for one in results)
    ):
        assert isinstance(decided, NoOpinion)
    elif stronger.effect is NO_OPINION:
        assert isinstance(decided, ConditionsMap)
        assert decided.no_opinion
    elif ALLOW in certain_effects:
        assert isinstance(decided, Allow)
    else:
        assert isinstance(decided, ConditionsMap)


def test_the_same_results_give_the_same_decision() -> None:
    assert decide_from_policies([CA, CD, CN]) == decide_from_policies([CA, CD, CN])


def test_an_invalid_condition_fails_closed_by_the_rules_given() -> None:
    wrong = PolicyResult(DENY, Condition("unprefixed", evaluate=lambda data: Truth.TRUE))

    assert isinstance(decide_from_policies([wrong]), Deny)
    assert isinstance(decide_from_policies([wrong], rules=RULES_1_37), ConditionsMap)
