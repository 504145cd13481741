import pytest

from proxy.core.cel.environment import (
    CONDITION_ENVIRONMENT,
    EXPRESSION_COST_LIMIT,
    MATCH_CONDITION_ENVIRONMENT,
    POLICY_ENVIRONMENT,
    CelEnvironment,
    CostBudget,
    EvaluationTooLong,
)
from proxy.core.cel.errors import CelCompileError

LOOP = "object.l.all(x, object.l.all(y, object.l.all(z, x + y + z >= 0)))"
ENVIRONMENTS = (POLICY_ENVIRONMENT, CONDITION_ENVIRONMENT, MATCH_CONDITION_ENVIRONMENT)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_authorizer_compiles_in_no_environment(environment: CelEnvironment) -> None:
    with pytest.raises(CelCompileError, match="undeclared reference to 'authorizer'"):
        environment.compile('authorizer.group("").resource("pods").check("get").allowed()')


def test_the_environments_differ_in_their_variables() -> None:
    assert "impersonatedRequest" in POLICY_ENVIRONMENT.variables
    assert set(CONDITION_ENVIRONMENT.variables) == {
        "request",
        "object",
        "oldObject",
        "namespaceObject",
    }
    assert set(MATCH_CONDITION_ENVIRONMENT.variables) == {"request"}


def test_a_condition_must_be_a_bool() -> None:
    program = POLICY_ENVIRONMENT.compile_condition("object.flag == true")
    assert str(program.type) == "bool"
    with pytest.raises(CelCompileError, match="must evaluate to bool but got dyn"):
        POLICY_ENVIRONMENT.compile_condition("object.flag")


def test_an_evaluation_stops_at_the_cost_limit() -> None:
    program = POLICY_ENVIRONMENT.compile(LOOP)

    outcome = program.evaluate({"object": {"l": list(range(300))}})

    assert outcome.error == "operation cancelled: actual cost limit exceeded"
    assert EXPRESSION_COST_LIMIT < outcome.cost < EXPRESSION_COST_LIMIT + 100


def test_an_exceeded_limit_is_not_absorbed() -> None:
    program = POLICY_ENVIRONMENT.compile(f"({LOOP}) || true")

    outcome = program.evaluate({"object": {"l": list(range(300))}})

    assert outcome.error == "operation cancelled: actual cost limit exceeded"


def test_a_budget_is_shared_by_several_expressions() -> None:
    program = POLICY_ENVIRONMENT.compile("object.l.all(x, x >= 0)")
    budget = CostBudget(1_000)
    variables = {"object": {"l": list(range(100))}}

    first = program.evaluate(variables, budget=budget)
    second = program.evaluate(variables, budget=budget)

    assert first.error is None
    assert second.error == "operation cancelled: actual cost limit exceeded"
    assert budget.left == 0


def test_an_evaluation_longer_than_its_slice_is_abandoned_and_can_be_repeated() -> None:
    program = POLICY_ENVIRONMENT.compile("object.l.all(x, x >= 0)")
    variables = {"object": {"l": list(range(1_000))}}
    budget = CostBudget(100_000)

    with pytest.raises(EvaluationTooLong):
        program.evaluate(variables, budget=budget, slice_cost=500)

    assert budget.left == 100_000
    assert program.evaluate(variables, budget=budget).value is True


def test_an_error_after_the_limit_counts_as_an_exceeded_limit() -> None:
    program = POLICY_ENVIRONMENT.compile("object.a + object.b")

    outcome = program.evaluate({"object": {"a": 1}}, budget=CostBudget(1))

    assert outcome.error == "operation cancelled: actual cost limit exceeded"


def test_a_missing_variable_is_an_error() -> None:
    outcome = POLICY_ENVIRONMENT.compile("oldObject == null").evaluate({})

    assert outcome.error == "no such attribute(s): oldObject"


def test_the_limit_counts_without_a_loop_too() -> None:
    program = POLICY_ENVIRONMENT.compile("object.a == 1")

    outcome = program.evaluate({"object": {"a": 1}}, budget=CostBudget(2))

    assert outcome.error == "operation cancelled: actual cost limit exceeded"
    assert outcome.value is None
