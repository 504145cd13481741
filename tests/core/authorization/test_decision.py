import ast
from pathlib import Path

import pytest

from proxy.core.authorization.decision import (
    Allow,
    Condition,
    Decision,
    Deny,
    FailedEvaluation,
    NoOpinion,
    Outcome,
    aggregate_errors,
    decide,
    error_text,
    fail_closed,
    failure_outcome,
    has_final_leaf,
    list_outcomes,
    outcome_of,
    possible_outcomes,
    prefix_error,
)
from tests.core.authorization.decisions import (
    CONDITIONAL_ALLOW,
    CONDITIONAL_BOTH,
    CONDITIONAL_DENY,
    NO_OPINION,
    conditions_map,
    open_union,
)

PACKAGE = Path(__file__).parents[3] / "proxy"


@pytest.mark.parametrize("outcome", Outcome)
def test_a_concrete_decision_keeps_outcome_reason_and_error(outcome: Outcome) -> None:
    decision = decide(outcome, "why", ("boom",))

    assert outcome_of(decision) is outcome
    assert (decision.reason, decision.errors) == ("why", ("boom",))
    assert possible_outcomes(decision) == {outcome}


def test_a_decision_with_nothing_stated_is_deny_with_an_empty_reason() -> None:
    assert decide(Outcome.DENY) == Deny("", ())
    assert next(iter(Outcome)) is Outcome.DENY


def test_a_condition_has_an_id_and_may_have_body_type_and_description() -> None:
    assert Condition("example.com/a") == Condition("example.com/a", "", "", "")
    assert Condition("example.com/a").evaluate is None
    assert FailedEvaluation().text == "unspecified evaluation error"


@pytest.mark.parametrize(
    ("decision", "possible"),
    [
        pytest.param(Allow(), "[Allow]", id="3.2 Allow"),
        pytest.param(Deny(), "[Deny]", id="3.2 Deny"),
        pytest.param(NoOpinion(), "[NoOpinion]", id="3.2 NoOpinion"),
        pytest.param(CONDITIONAL_ALLOW, "[Allow NoOpinion]", id="3.2 map with allow"),
        pytest.param(CONDITIONAL_DENY, "[Deny NoOpinion]", id="3.2 map with deny"),
        pytest.param(CONDITIONAL_BOTH, "[Deny Allow NoOpinion]", id="3.2 map with both"),
        pytest.param(
            open_union(CONDITIONAL_ALLOW, NoOpinion()), "[Allow NoOpinion]", id="3.2 union"
        ),
        pytest.param(
            open_union(CONDITIONAL_DENY, Allow()), "[Deny Allow]", id="3.2 union with a leaf"
        ),
        pytest.param(
            open_union(open_union(CONDITIONAL_DENY, Allow())),
            "[Deny Allow]",
            id="3.2 union with a leaf below",
        ),
    ],
)
def test_possible_outcomes(decision: Decision, possible: str) -> None:
    assert list_outcomes(possible_outcomes(decision)) == possible


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        (Allow(), Outcome.NO_OPINION),
        (Deny(), Outcome.DENY),
        (NoOpinion(), Outcome.NO_OPINION),
        (CONDITIONAL_ALLOW, Outcome.NO_OPINION),
        (CONDITIONAL_DENY, Outcome.DENY),
        (CONDITIONAL_BOTH, Outcome.DENY),
        (open_union(CONDITIONAL_ALLOW, Deny()), Outcome.DENY),
        (conditions_map(deny=(None,), failure=NO_OPINION), Outcome.NO_OPINION),
    ],
)
def test_the_failure_decision_is_deny_if_deny_is_possible(
    decision: Decision, outcome: Outcome
) -> None:
    assert failure_outcome(decision) is outcome
    assert fail_closed(decision, "x") == decide(outcome, "failed closed", ("x",))


def test_a_conditional_allow_may_end_in_all_three_and_a_conditional_deny_never_allows() -> None:
    assert Outcome.ALLOW in possible_outcomes(CONDITIONAL_BOTH)
    assert Outcome.ALLOW in possible_outcomes(CONDITIONAL_ALLOW)
    assert Outcome.ALLOW not in possible_outcomes(CONDITIONAL_DENY)


def test_a_final_leaf_is_found_at_any_depth() -> None:
    union = open_union(CONDITIONAL_BOTH, open_union(CONDITIONAL_DENY, Allow()))

    assert has_final_leaf(union)
    assert not has_final_leaf(open_union(CONDITIONAL_BOTH, NoOpinion()))


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        pytest.param([], "", id="3.8 none"),
        pytest.param([("a",)], "a", id="3.8 one is bare"),
        pytest.param([("a",), ("b",)], "[a, b]", id="3.8 several in brackets"),
        pytest.param([("a", "b"), ("b", "c")], "[a, b, c]", id="3.8 flattened and distinct"),
        pytest.param([("a",), ("a",)], "a", id="3.8 the same twice is one"),
        pytest.param(
            [prefix_error("p", ("a", "b")), ("a",)], "[p: [a, b], a]", id="3.8 a prefix ends it"
        ),
    ],
)
def test_aggregated_errors(errors: list[tuple[str, ...]], text: str) -> None:
    assert error_text(aggregate_errors(errors)) == text


def test_no_error_with_a_prefix_is_no_error() -> None:
    assert prefix_error("p", ()) == ()


def test_maps_and_unions_are_built_in_one_module_each() -> None:
    builders = {"ConditionsMap": "conditions.py", "DecisionUnion": "union.py"}
    found = {
        (node.func.id, file.name)
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in builders
    }

    assert found == set(builders.items())


def test_the_evaluator_can_reach_no_policy_store() -> None:
    """Conditions are evaluated with what travels with the request (S1-086)."""
    modules = {"chain", "conditions", "decision", "evaluation", "folding", "rules", "union"}
    allowed = {"proxy.core.authorization", "proxy.core.gocompat.quote", "proxy.core.userinfo"}
    imported = {
        node.module
        for module in modules
        for node in ast.walk(
            ast.parse((PACKAGE / "core" / "authorization" / f"{module}.py").read_text())
        )
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("proxy")
    }
    names = {f"proxy.core.authorization.{module}" for module in modules}

    assert imported - names - allowed == set()


def test_decisions_are_immutable() -> None:
    allow, union = Allow("a"), open_union(CONDITIONAL_ALLOW)

    with pytest.raises(AttributeError):
        allow.reason = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        union.members = ()  # type: ignore[misc]
    assert hash(union) == hash(open_union(CONDITIONAL_ALLOW))
