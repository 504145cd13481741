import pytest

from proxy.core.authorization.chain import (
    EVALUATION_NOT_SUPPORTED,
    MemberEvaluation,
    ask_chain,
    check_chain_names,
    evaluate_chain,
)
from proxy.core.authorization.decision import (
    Allow,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Deny,
    NamedDecision,
    NoOpinion,
    Outcome,
    Unconditional,
    possible_outcomes,
)
from proxy.core.authorization.evaluation import evaluate_map
from proxy.core.authorization.folding import fold_unexpected
from tests.core.authorization.decisions import (
    CONDITIONAL_ALLOW,
    CONDITIONAL_DENY,
    DATA,
    FALSE,
    TRUE,
    conditions_map,
    open_union,
)

NAMES = "pqrst"


def ask(*answers: Decision) -> tuple[Decision, list[str]]:
    """Return the decision of a chain whose authorizers give these answers, and who was asked."""
    asking, asked = ask_chain(NAMES[: len(answers)]), []
    try:
        name = next(asking)
        while True:
            asked.append(name)
            name = asking.send(answers[NAMES.index(name)])
    except StopIteration as end:
        return end.value, asked


def evaluate(decision: Decision, names: str = NAMES) -> tuple[Unconditional, list[str]]:
    """Return what a chain evaluates a decision to, and the authorizers that evaluated."""
    evaluating, evaluated = evaluate_chain(decision, names), []
    try:
        wanted = next(evaluating)
        while True:
            evaluated.append(wanted.name)
            wanted = evaluating.send(evaluate_member(wanted))
    except StopIteration as end:
        return end.value, evaluated


def evaluate_member(wanted: MemberEvaluation) -> Unconditional:
    if isinstance(wanted.decision, ConditionsMap):
        return evaluate_map(wanted.decision, DATA, lambda one, data: False)
    return evaluate(wanted.decision)[0]


def evaluate_with(decision: Decision, *results: Unconditional) -> Unconditional:
    """Return what a chain evaluates a decision to, if its authorizers return these results."""
    evaluating = evaluate_chain(decision, NAMES)
    next(evaluating)
    try:
        for result in results:
            evaluating.send(result)
    except StopIteration as end:
        value: Unconditional = end.value
        return value
    raise AssertionError("the chain wants more results")


def test_a_chain_has_names_that_are_not_empty_and_not_repeated() -> None:
    check_chain_names(["p", "q"])
    with pytest.raises(ValueError, match=r"^empty AuthorizerName in union\.New is invalid$"):
        check_chain_names(["p", ""])
    with pytest.raises(ValueError, match=r'^duplicate AuthorizerName "p" in union\.New$'):
        check_chain_names(["p", "q", "p"])


def test_3_5_a_conditional_allow_does_not_end_the_asking() -> None:
    decision, asked = ask(CONDITIONAL_ALLOW, NoOpinion(), Deny("no"), Allow("late"))

    assert asked == ["p", "q", "r"]
    assert decision == open_union(CONDITIONAL_ALLOW, NoOpinion(), Deny("no"))


def test_3_5_a_final_leaf_inside_an_answer_ends_the_asking() -> None:
    _, asked = ask(open_union(CONDITIONAL_DENY, Allow()), Deny())

    assert asked == ["p"]


def test_3_5_a_chain_without_opinions_has_none_and_keeps_reasons() -> None:
    decision, asked = ask(NoOpinion("a"), NoOpinion("b"))

    assert decision == NoOpinion("p: {a}, q: {b}")
    assert asked == ["p", "q"]
    assert ask() == (NoOpinion(), [])


@pytest.mark.parametrize("decision", [CONDITIONAL_DENY, CONDITIONAL_ALLOW, Allow(), Deny()])
def test_3_6_only_a_union_is_evaluated(decision: Decision) -> None:
    error = "the union authorizer can only evaluate union ConditionsAwareDecisions"
    denies = Outcome.DENY in possible_outcomes(decision)
    expected = (Deny if denies else NoOpinion)("failed closed", (error,))

    assert evaluate(decision) == (expected, [])


@pytest.mark.parametrize("final", [Allow("a", ("x",)), Deny("d", ("y",))])
def test_3_6_a_final_member_decides_with_its_own_reason_and_error(final: Decision) -> None:
    union = open_union(conditions_map(deny=(FALSE,), allow=(FALSE,)), NoOpinion("n"), final)

    assert evaluate(union) == (final, ["p"])


def test_3_6_later_members_are_not_evaluated() -> None:
    union = open_union(
        conditions_map(allow=(FALSE,)), conditions_map(deny=(TRUE,)), conditions_map(allow=(TRUE,))
    )

    decided, evaluated = evaluate(union)

    assert decided == Deny('condition "example.com/d0" denied the request')
    assert evaluated == ["p", "q"]


def test_3_6_no_opinions_are_listed_by_name_one_a_line() -> None:
    union = open_union(
        NoOpinion("first", ("e",)),
        conditions_map(allow=(FALSE,)),
        NoOpinion("", ("f", "e")),
    )

    decided, _ = evaluate(union)

    assert decided == NoOpinion("p: first\nq: no conditions matched", ("e", "f"))


def test_3_6_names_of_nested_chains_accumulate() -> None:
    union = open_union(open_union(conditions_map(allow=(FALSE,))))

    assert evaluate(union)[0] == NoOpinion("p: p: no conditions matched")


def test_3_6_an_unknown_name_fails_closed() -> None:
    error = 'couldn\'t find authorizer with name: "p"'

    decided, evaluated = evaluate(open_union(CONDITIONAL_DENY), names="q")

    assert (decided, evaluated) == (Deny("failed closed", (error,)), [])
    allow, _ = evaluate(open_union(CONDITIONAL_ALLOW), names="q")
    assert allow == NoOpinion("p: failed closed", (error,))


def test_3_6_an_impossible_outcome_fails_closed() -> None:
    error = "evaluated to decision Allow, but only [Deny NoOpinion] were possible"

    assert evaluate_with(open_union(CONDITIONAL_DENY), Allow()) == Deny("failed closed", (error,))


def test_3_6_no_evaluation_support_denies_where_deny_is_possible() -> None:
    unsupported = "condition evaluation not supported"
    denied = evaluate_with(open_union(CONDITIONAL_DENY), EVALUATION_NOT_SUPPORTED)
    passed = evaluate_with(open_union(CONDITIONAL_ALLOW), EVALUATION_NOT_SUPPORTED)

    assert denied == Deny("", (unsupported,))
    assert passed == NoOpinion(
        "p: failed closed",
        ("evaluated to decision Deny, but only [Allow NoOpinion] were possible",),
    )


def test_a_conditional_deny_before_a_deny_denies_at_once_and_names_the_later_one() -> None:
    assert ask(CONDITIONAL_DENY, Deny("no"))[0] == Deny("q: {no}")


def test_a_conditional_deny_before_an_allow_stays_conditional() -> None:
    decision, _ = ask(CONDITIONAL_DENY, Allow("yes"))

    assert decision == open_union(CONDITIONAL_DENY, Allow("yes"))
    assert evaluate_with(decision, Deny("true")) == Deny("true")
    assert evaluate_with(decision, NoOpinion()) == Allow("yes")


def test_the_rest_of_the_chain_decides_if_a_conditional_allow_does_not() -> None:
    decision, _ = ask(conditions_map(allow=(FALSE,)), Allow("later"))

    assert decision == Allow("q: {later}")
    decision, _ = ask(conditions_map(allow=(FALSE,)), CONDITIONAL_ALLOW, Deny("later"))
    assert evaluate(decision)[0] == Deny("later")


@pytest.mark.parametrize("later", [Allow("l"), Deny("l"), NoOpinion("l")])
@pytest.mark.parametrize(
    "first",
    [
        conditions_map(allow=(TRUE,)),
        conditions_map(allow=(FALSE,)),
        conditions_map(deny=(TRUE,), allow=(TRUE,)),
        conditions_map(deny=(FALSE,), allow=(FALSE,)),
        conditions_map(no_opinion=(TRUE,), allow=(TRUE,)),
    ],
)
def test_asking_lazily_gives_the_same_decision_with_fewer_calls(
    first: ConditionsMap, later: Unconditional
) -> None:
    """The request path may evaluate a conditional Allow before it asks the next authorizer."""
    eager, asked = ask(first, later)
    decided = evaluate(eager)[0] if isinstance(eager, DecisionUnion) else fold_unexpected(eager)

    lazy, evaluated = evaluate(open_union(first))
    calls = len(evaluated)
    if isinstance(lazy, NoOpinion):
        lazy, calls = later, calls + 1

    assert type(lazy) is type(decided)
    assert calls <= len(asked)


def test_a_member_keeps_its_order() -> None:
    decision, _ = ask(CONDITIONAL_DENY, CONDITIONAL_ALLOW)

    assert decision == DecisionUnion(
        (NamedDecision("p", CONDITIONAL_DENY), NamedDecision("q", CONDITIONAL_ALLOW))
    )
