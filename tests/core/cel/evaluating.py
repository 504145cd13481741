"""Evaluate an expression of the policy environment in one line."""

from proxy.core.cel.environment import POLICY_ENVIRONMENT, CelOutcome
from proxy.core.cel.values.kinds import Value

OBJECT: dict[str, Value] = {
    "a": 1,
    "s": "x",
    "l": [1, 2, 3],
    "m": {"k": "v"},
    "n": None,
    "t": True,
}


def outcome(expression: str, **variables: Value) -> CelOutcome:
    return POLICY_ENVIRONMENT.compile(expression).evaluate({"object": OBJECT, **variables})


def value(expression: str, **variables: Value) -> Value:
    found = outcome(expression, **variables)
    assert found.error is None, found.error
    return found.value


def failure(expression: str, **variables: Value) -> str:
    error = outcome(expression, **variables).error
    assert error is not None
    return error
