import itertools

import pytest

from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    Allow,
    Condition,
    ConditionResult,
    ConditionsData,
    ConditionsMap,
    Decision,
    Deny,
    FailedEvaluation,
    NamedDecision,
    NoOpinion,
    Truth,
)
from proxy.core.authorization.evaluation import (
    evaluate_map,
    evaluate_map_partially,
    evaluate_partially,
)
from proxy.core.authorization.rules import AlgebraRules
from tests.core.authorization.decisions import (
    DATA,
    DENY,
    ERROR,
    FALSE,
    NO_OPINION,
    OPEN,
    TRUE,
    condition,
    conditions_map,
    ids,
    open_union,
)

ERRORS = "one or more conditional evaluation errors occurred"
ONLY_NO_OPINION = NoOpinion("only NoOpinion conditions always evaluate to NoOpinion")
Results = tuple[ConditionResult, ...]


def failure_of(effect: str, name: str, text: str = "boom") -> str:
    return f'condition "example.com/{name}" with effect={effect} evaluated to an error: {text}'


@pytest.mark.parametrize(
    ("deny", "no_opinion", "allow", "expected"),
    [
        pytest.param(
            (FALSE, TRUE),
            (TRUE,),
            (TRUE,),
            Deny('condition "example.com/d1" denied the request'),
            id="3.3 Deny true",
        ),
        pytest.param(
            (ERROR, OPEN, TRUE),
            (),
            (TRUE,),
            Deny('condition "example.com/d2" denied the request'),
            id="3.3 Deny true after error and unevaluatable",
        ),
        pytest.param(
            (ERROR, OPEN, FailedEvaluation("x")),
            (),
            (TRUE,),
            Deny(ERRORS, (failure_of("Deny", "d0"), failure_of("Deny", "d2", "x"))),
            id="3.3 Deny error",
        ),
        pytest.param(
            (FALSE,),
            (ERROR, TRUE),
            (TRUE,),
            NoOpinion('condition "example.com/n1" evaluated to NoOpinion'),
            id="3.3 NoOpinion true",
        ),
        pytest.param(
            (FALSE,),
            (ERROR, OPEN),
            (TRUE,),
            NoOpinion(ERRORS, (failure_of("NoOpinion", "n0"),)),
            id="3.3 NoOpinion error",
        ),
        pytest.param(
            (),
            (OPEN,),
            (),
            ONLY_NO_OPINION,
            id="3.3 NoOpinion unevaluatable without allow",
        ),
        pytest.param(
            (FALSE,),
            (FALSE,),
            (ERROR, OPEN, TRUE),
            Allow('condition "example.com/a2" allowed the request'),
            id="3.3 Allow true",
        ),
        pytest.param(
            (FALSE,),
            (),
            (FALSE, ERROR),
            NoOpinion(ERRORS, (failure_of("Allow", "a1"),)),
            id="3.3 Allow error",
        ),
        pytest.param(
            (FALSE,), (FALSE,), (FALSE,), NoOpinion("no conditions matched"), id="3.3 all false"
        ),
        pytest.param((FALSE,), (), (), NoOpinion("no conditions matched"), id="3.3 Deny false"),
    ],
)
def test_a_map_that_is_decided(
    deny: Results, no_opinion: Results, allow: Results, expected: Decision
) -> None:
    # A map needs a deny or an allow condition: one that is false does not matter here.
    made = conditions_map(deny or (FALSE,), no_opinion, allow)

    assert evaluate_map_partially(made, DATA) == expected


@pytest.mark.parametrize(
    ("deny", "no_opinion", "allow", "left"),
    [
        pytest.param(
            (OPEN, FALSE, OPEN),
            (TRUE,),
            (ERROR,),
            (["d0", "d2"], ["n0"], ["a0"]),
            id="3.3 Deny unevaluatable",
        ),
        pytest.param(
            (FALSE,),
            (OPEN, FALSE),
            (TRUE,),
            ([], ["n0"], ["a0"]),
            id="3.3 NoOpinion unevaluatable",
        ),
        pytest.param(
            (), (FALSE,), (OPEN, FALSE, OPEN), ([], [], ["a0", "a2"]), id="3.3 Allow unevaluatable"
        ),
        pytest.param(
            (), (), (ERROR, OPEN), ([], [], ["a1"]), id="3.3 Trap: an open Allow stays open"
        ),
    ],
)
def test_a_map_that_stays_open(
    deny: Results, no_opinion: Results, allow: Results, left: tuple[list[str], ...]
) -> None:
    made = conditions_map(deny, no_opinion, allow)

    assert ids(evaluate_map_partially(made, DATA)) == left


def test_3_3_trap_the_published_code_folds_an_open_allow_beside_an_error() -> None:
    made = conditions_map(allow=(ERROR, OPEN))
    upstream = AlgebraRules(keeps_allows_open=False)

    folded = evaluate_map_partially(made, DATA, rules=upstream)

    assert folded == NoOpinion(ERRORS, (failure_of("Allow", "a0"),))
    assert evaluate_partially(open_union(made), DATA, rules=upstream) == NoOpinion(
        f"p: {{{ERRORS}}}", (f"p: {failure_of('Allow', 'a0')}",)
    )


def test_3_3_trap_the_open_allow_decides_alone() -> None:
    left = evaluate_map_partially(conditions_map(allow=(ERROR, OPEN)), DATA)
    assert isinstance(left, ConditionsMap)

    allowed = evaluate_map(left, DATA, lambda one, data: True)
    failed = evaluate_map(left, DATA, lambda one, data: ERROR)

    assert allowed == Allow('condition "example.com/a1" allowed the request')
    assert evaluate_map(left, DATA, lambda one, data: False) == NoOpinion("no conditions matched")
    assert failed == NoOpinion(ERRORS, (failure_of("Allow", "a1"),))


@pytest.mark.parametrize(
    ("result", "denied", "barred", "allowed"),
    [
        (TRUE, Deny, NoOpinion, Allow),
        (FALSE, NoOpinion, Allow, NoOpinion),
        (ERROR, Deny, NoOpinion, NoOpinion),
        (OPEN, ConditionsMap, ConditionsMap, ConditionsMap),
    ],
)
def test_3_3_single_conditions(
    result: ConditionResult,
    denied: type[Decision],
    barred: type[Decision],
    allowed: type[Decision],
) -> None:
    evaluated = [
        evaluate_map_partially(conditions_map(deny=(result,)), DATA),
        evaluate_map_partially(conditions_map(no_opinion=(result,), allow=(TRUE,)), DATA),
        evaluate_map_partially(conditions_map(allow=(result,)), DATA),
    ]

    assert [type(one) for one in evaluated] == [denied, barred, allowed]
    has_error = [bool(getattr(one, "errors", ())) for one in evaluated]
    assert has_error == [result is ERROR] * 3


@pytest.mark.parametrize("truths", list(itertools.product((TRUE, FALSE), repeat=3)))
def test_a_true_allow_allows_unless_a_deny_or_no_opinion_is_true(truths: Results) -> None:
    deny, no_opinion, allow = truths
    made = conditions_map((deny,), (no_opinion,), (allow,))
    expected: type[Decision] = NoOpinion
    if deny is TRUE:
        expected = Deny
    elif no_opinion is FALSE and allow is TRUE:
        expected = Allow

    assert isinstance(evaluate_map_partially(made, DATA), expected)


def test_a_description_is_in_the_reason_in_quotes() -> None:
    made = make_conditions_map([condition("d", TRUE, description='say "no"')])
    assert isinstance(made, ConditionsMap)

    assert evaluate_map_partially(made, DATA) == Deny(
        'condition "example.com/d" denied the request with description "say \\"no\\""'
    )


def test_an_error_without_a_text_has_one() -> None:
    made = conditions_map(deny=(FailedEvaluation(),))

    evaluated = evaluate_map_partially(made, DATA)

    assert evaluated == Deny(ERRORS, (failure_of("Deny", "d0", "unspecified evaluation error"),))


def test_the_own_evaluator_is_asked_first_and_the_callers_only_for_what_is_left() -> None:
    asked: list[tuple[str, ConditionsData]] = []

    def evaluate(one: Condition, data: ConditionsData) -> ConditionResult:
        asked.append((one.id, data))
        return FALSE

    made = conditions_map(deny=(FALSE, OPEN, None), allow=(TRUE, OPEN))

    evaluated = evaluate_map_partially(made, DATA, evaluate)

    assert isinstance(evaluated, Allow)
    assert asked == [("example.com/d1", DATA), ("example.com/d2", DATA)]


def test_a_condition_is_evaluated_with_the_data_and_nothing_else() -> None:
    seen: list[ConditionsData] = []

    def evaluate(data: ConditionsData) -> ConditionResult:
        seen.append(data)
        return TRUE

    made = make_conditions_map(allow=[Condition("example.com/a", evaluate=evaluate)])
    assert isinstance(made, ConditionsMap)

    assert isinstance(evaluate_map_partially(made, DATA), Allow)
    assert seen == [DATA]


def test_full_evaluation_takes_true_false_and_errors_of_the_callback() -> None:
    made = conditions_map(deny=(None,), allow=(None,))

    decided = [
        evaluate_map(made, DATA, lambda one, data, result=result: result)  # type: ignore[misc]
        for result in (True, False, ERROR)
    ]

    assert decided[0] == Deny('condition "example.com/d0" denied the request')
    assert decided[1] == NoOpinion("no conditions matched")
    assert decided[2] == Deny(ERRORS, (failure_of("Deny", "d0"),))


def test_a_result_of_another_type_does_not_count_as_false() -> None:
    made = conditions_map(deny=(None,))

    with pytest.raises(AssertionError):
        evaluate_map_partially(made, DATA, lambda one, data: "no")  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("failure", "expected"), [(DENY, Deny), (NO_OPINION, NoOpinion), (None, Deny)]
)
def test_a_stated_failure_mode_decides_what_an_error_of_a_deny_condition_is(
    failure: None, expected: type[Deny] | type[NoOpinion]
) -> None:
    made = conditions_map(deny=(ERROR,), allow=(TRUE,), failure=failure)

    assert evaluate_map_partially(made, DATA) == expected(ERRORS, (failure_of("Deny", "d0"),))


def test_a_stated_failure_mode_stays_with_what_is_left() -> None:
    deny = conditions_map(deny=(OPEN,), failure=NO_OPINION)
    no_opinion = conditions_map(no_opinion=(OPEN,), allow=(OPEN,), failure=NO_OPINION)
    allow = conditions_map(allow=(OPEN,), failure=NO_OPINION)

    assert [evaluate_map_partially(one, DATA) for one in (deny, no_opinion, allow)] == [
        deny,
        no_opinion,
        allow,
    ]


@pytest.mark.parametrize("decision", [Allow("a"), Deny("b"), NoOpinion("c")])
def test_an_unconditional_decision_has_nothing_to_evaluate(decision: Decision) -> None:
    assert evaluate_partially(decision, DATA) is decision


def test_3_6_members_behind_one_that_stays_open_are_not_evaluated() -> None:
    asked: list[str] = []

    def evaluate(one: Condition, data: ConditionsData) -> ConditionResult:
        asked.append(one.id)
        return Truth.UNEVALUATABLE

    union = open_union(
        conditions_map(allow=(FALSE,)), conditions_map(deny=(None,)), conditions_map(allow=(TRUE,))
    )

    left = evaluate_partially(union, DATA, evaluate)

    assert left == open_union(
        NoOpinion("no conditions matched"),
        conditions_map(deny=(None,)),
        conditions_map(allow=(TRUE,)),
    )
    assert asked == ["example.com/d0"]


def test_3_6_partial_evaluation_stops_at_the_first_final_member() -> None:
    union = open_union(conditions_map(allow=(TRUE,)), conditions_map(deny=(TRUE,)))

    assert evaluate_partially(union, DATA) == Allow(
        'p: {condition "example.com/a0" allowed the request}'
    )


def test_3_6_nested_unions_are_evaluated_in_part() -> None:
    inner = open_union(conditions_map(deny=(FALSE,)), conditions_map(allow=(None,)))

    left = evaluate_partially(open_union(inner, conditions_map(deny=(TRUE,))), DATA)

    assert left == open_union(
        open_union(NoOpinion("no conditions matched"), conditions_map(allow=(None,))),
        conditions_map(deny=(TRUE,)),
    )


@pytest.mark.parametrize("labels", list(itertools.product((TRUE, FALSE), repeat=3)))
def test_the_seeds_normal_form_holds_for_every_combination_of_labels(labels: Results) -> None:
    """A Deny of set 1 bars all sets, a NoOpinion of set 1 only its own Allow."""
    deny, no_opinion, allow = labels
    first = conditions_map((deny,), (no_opinion,), (allow,))
    second = conditions_map(allow=(TRUE,))

    decided = evaluate_partially(open_union(first, second), DATA)

    assert isinstance(decided, Allow) == (deny is FALSE)
    by_first = allow is TRUE and no_opinion is FALSE and deny is FALSE
    assert isinstance(evaluate_partially(open_union(first), DATA), Allow) == by_first


def test_members_keep_their_names() -> None:
    union = open_union(conditions_map(allow=(FALSE, OPEN)))

    left = evaluate_partially(union, DATA)

    allow = make_conditions_map(allow=[condition("a1")])
    assert getattr(left, "members", None) == (NamedDecision("p", allow),)
