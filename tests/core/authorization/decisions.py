"""Short forms for decisions and conditions with a fixed result."""

from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    Condition,
    ConditionResult,
    ConditionsData,
    ConditionsMap,
    Decision,
    DecisionUnion,
    FailedEvaluation,
    NamedDecision,
    Outcome,
    Truth,
)
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules
from proxy.core.authorization.union import make_union

DATA: ConditionsData = {"object": {"a": 1}}
TRUE, FALSE, OPEN = Truth.TRUE, Truth.FALSE, Truth.UNEVALUATABLE
ERROR = FailedEvaluation("boom")
DENY, NO_OPINION, ALLOW = Outcome.DENY, Outcome.NO_OPINION, Outcome.ALLOW


def condition(
    name: str, result: ConditionResult | None = None, *, description: str = "", body: str = ""
) -> Condition:
    """Return the condition `example.com/NAME` with this result of its own evaluator."""
    evaluate = None if result is None else (lambda data: result)
    return Condition(f"example.com/{name}", body=body, description=description, evaluate=evaluate)


def conditions_map(
    deny: tuple[ConditionResult | None, ...] = (),
    no_opinion: tuple[ConditionResult | None, ...] = (),
    allow: tuple[ConditionResult | None, ...] = (),
    *,
    failure: Outcome | None = None,
) -> ConditionsMap:
    """Return a map of conditions with these results: d0, d1, …, n0, …, a0, …."""
    made = make_conditions_map(
        *(
            [condition(f"{letter}{index}", result) for index, result in enumerate(results)]
            for letter, results in (("d", deny), ("n", no_opinion), ("a", allow))
        ),
        failure=failure,
    )
    assert isinstance(made, ConditionsMap)
    return made


CONDITIONAL_ALLOW = conditions_map(allow=(None,))
CONDITIONAL_DENY = conditions_map(deny=(None,))
CONDITIONAL_BOTH = conditions_map(deny=(None,), allow=(None,))


def union_of(*decisions: Decision, rules: AlgebraRules = RULES_1_38) -> Decision:
    """Return the union of decisions by authorizers p, q, r, …."""
    named = [NamedDecision(name, one) for name, one in zip("pqrst", decisions, strict=False)]
    return make_union(named, rules=rules)


def open_union(*decisions: Decision) -> DecisionUnion:
    """Return the union of decisions, which must be conditional."""
    made = union_of(*decisions)
    assert isinstance(made, DecisionUnion)
    return made


def ids(decision: Decision) -> tuple[list[str], list[str], list[str]]:
    """Return the short ids of a map's conditions by effect."""
    assert isinstance(decision, ConditionsMap)
    deny, no_opinion, allow = (
        [one.id.removeprefix("example.com/") for one in listed]
        for listed in (decision.deny, decision.no_opinion, decision.allow)
    )
    return deny, no_opinion, allow
