"""Evaluation of conditions maps and unions with the later data, in full and in part.

Effects are evaluated in the order Deny, NoOpinion, Allow, each in the order of its list. A lower
effect is evaluated only if every condition of the higher ones was false.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, assert_never

from proxy.core.authorization.conditions import reduced_map
from proxy.core.authorization.decision import (
    Condition,
    ConditionResult,
    ConditionsData,
    ConditionsMap,
    Decision,
    DecisionUnion,
    FailedEvaluation,
    NamedDecision,
    NoOpinion,
    Outcome,
    Truth,
    Unconditional,
    aggregate_errors,
    decide,
    has_final_leaf,
)
from proxy.core.authorization.folding import fold_unexpected
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules
from proxy.core.authorization.union import reduced_union
from proxy.core.gocompat.quote import go_quote

ConditionEvaluator = Callable[[Condition, ConditionsData], ConditionResult]
"""Evaluates conditions that cannot evaluate themselves; `UNEVALUATABLE` leaves them open."""
ConditionDecider = Callable[[Condition, ConditionsData], bool | FailedEvaluation]
"""Evaluates conditions that cannot evaluate themselves. It leaves none open."""

EVALUATION_ERRORS = "one or more conditional evaluation errors occurred"
NO_CONDITIONS_MATCHED = "no conditions matched"
_APPLIED = {
    Outcome.DENY: "denied the request",
    Outcome.NO_OPINION: "evaluated to NoOpinion",
    Outcome.ALLOW: "allowed the request",
}


class _EffectResult(NamedTuple):
    """What the conditions of one effect gave: a decision, or the conditions that stay open."""

    decision: Unconditional | None
    open_conditions: tuple[Condition, ...] = ()


def evaluate_map(
    conditions: ConditionsMap, data: ConditionsData, decide_condition: ConditionDecider
) -> Unconditional:
    """Return the decision of a map: the form for enforcement, which leaves nothing open."""

    def evaluate(condition: Condition, data: ConditionsData) -> ConditionResult:
        result = decide_condition(condition, data)
        if isinstance(result, FailedEvaluation):
            return result
        return Truth.TRUE if result is True else Truth.FALSE

    return fold_unexpected(evaluate_map_partially(conditions, data, evaluate))


def evaluate_map_partially(
    conditions: ConditionsMap,
    data: ConditionsData,
    evaluate: ConditionEvaluator | None = None,
    *,
    rules: AlgebraRules = RULES_1_38,
) -> Decision:
    """Return what is left of a map: a decision, or a map of what could not be evaluated."""

    def evaluate_one(condition: Condition) -> ConditionResult:
        own = condition.evaluate
        result = Truth.UNEVALUATABLE if own is None else own(data)
        if result is Truth.UNEVALUATABLE and evaluate is not None:
            return evaluate(condition, data)
        return result

    failure = conditions.failure
    denied = _evaluate_effect(
        Outcome.DENY, conditions.deny, evaluate_one, failure=failure or Outcome.DENY
    )
    if denied.decision is not None:
        return denied.decision
    if denied.open_conditions:
        return reduced_map(
            denied.open_conditions, conditions.no_opinion, conditions.allow, failure=failure
        )
    barred = _evaluate_effect(Outcome.NO_OPINION, conditions.no_opinion, evaluate_one)
    if barred.decision is not None:
        return barred.decision
    if barred.open_conditions:
        return reduced_map((), barred.open_conditions, conditions.allow, failure=failure)
    allowed = _evaluate_effect(Outcome.ALLOW, conditions.allow, evaluate_one)
    if allowed.open_conditions and (allowed.decision is None or rules.keeps_allows_open):
        return reduced_map((), (), allowed.open_conditions, failure=failure)
    return allowed.decision or NoOpinion(NO_CONDITIONS_MATCHED)


def evaluate_partially(
    decision: Decision,
    data: ConditionsData,
    evaluate: ConditionEvaluator | None = None,
    *,
    rules: AlgebraRules = RULES_1_38,
) -> Decision:
    """Return what is left of a decision. Members behind one that stays open are not evaluated."""
    match decision:
        case ConditionsMap():
            return evaluate_map_partially(decision, data, evaluate, rules=rules)
        case DecisionUnion(members=members):
            return reduced_union(_evaluate_members(members, data, evaluate, rules=rules))
        case _:
            return decision


def applied_reason(effect: Outcome, condition: Condition) -> str:
    """Return the reason of a decision that a true condition made."""
    reason = f"condition {go_quote(condition.id)} {_APPLIED[effect]}"
    if condition.description:
        return f"{reason} with description {go_quote(condition.description)}"
    return reason


def _evaluate_members(
    members: Iterable[NamedDecision],
    data: ConditionsData,
    evaluate: ConditionEvaluator | None,
    *,
    rules: AlgebraRules,
) -> list[NamedDecision]:
    left: list[NamedDecision] = []
    is_open = False
    for member in members:
        decision = member.decision
        if not is_open:
            decision = evaluate_partially(decision, data, evaluate, rules=rules)
        left.append(NamedDecision(member.name, decision))
        if has_final_leaf(decision):
            break
        is_open = is_open or not isinstance(decision, NoOpinion)
    return left


def _evaluate_effect(
    effect: Outcome,
    conditions: Iterable[Condition],
    evaluate: Callable[[Condition], ConditionResult],
    *,
    failure: Outcome = Outcome.NO_OPINION,
) -> _EffectResult:
    """Evaluate conditions of one effect until one is true; an error does not end it."""
    errors: list[tuple[str]] = []
    open_conditions: list[Condition] = []
    for condition in conditions:
        result = evaluate(condition)
        match result:
            case Truth.TRUE:
                # Errors before it are dropped: which of them occurred depends on the order.
                return _EffectResult(decide(effect, applied_reason(effect, condition)))
            case Truth.FALSE:
                pass
            case Truth.UNEVALUATABLE:
                open_conditions.append(condition)
            case FailedEvaluation(text=text):
                where = f"condition {go_quote(condition.id)} with effect={effect.value}"
                errors.append((f"{where} evaluated to an error: {text}",))
            case _:
                # Without this, a result of another type would count as false.
                assert_never(result)
    decision = decide(failure, EVALUATION_ERRORS, aggregate_errors(errors)) if errors else None
    return _EffectResult(decision, open_conditions=tuple(open_conditions))
