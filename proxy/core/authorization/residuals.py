"""From the residuals of policies to the decision of their authorizer."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from proxy.core.authorization.conditions import make_conditions_map
from proxy.core.authorization.decision import (
    Allow,
    Condition,
    ConditionResult,
    ConditionsData,
    Decision,
    Deny,
    NoOpinion,
    Outcome,
    Truth,
)
from proxy.core.authorization.evaluation import applied_reason
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What a policy gave for a request. A policy that cannot apply any more gives none."""

    effect: Outcome
    condition: Condition
    is_unconditional: bool = False
    """Whether the policy applies whatever the later data is. The body is then not used."""


_BY_STRENGTH = (Outcome.DENY, Outcome.NO_OPINION, Outcome.ALLOW)


def decide_from_policies(
    results: Iterable[PolicyResult], *, rules: AlgebraRules = RULES_1_38
) -> Decision:
    """Return the decision of one authorizer. The strongest result that is certain decides.

    The order of strength is Deny, conditional Deny, NoOpinion, conditional NoOpinion, Allow,
    conditional Allow.
    """
    certain, conditional = _split(results)
    deny, no_opinion, allow = (conditional[effect] for effect in _BY_STRENGTH)
    if (condition := certain.get(Outcome.DENY)) is not None:
        return Deny(applied_reason(Outcome.DENY, condition))
    if (condition := certain.get(Outcome.NO_OPINION)) is not None:
        if deny:
            return make_conditions_map(deny, rules=rules)
        return NoOpinion(applied_reason(Outcome.NO_OPINION, condition))
    if (condition := certain.get(Outcome.ALLOW)) is not None:
        if not deny and not no_opinion:
            return Allow(applied_reason(Outcome.ALLOW, condition))
        allow = [replace(condition, body="true", evaluate=_always_true)]
    if not (deny or no_opinion or allow):
        return NoOpinion()
    return make_conditions_map(deny, no_opinion, allow, rules=rules)


def _split(
    results: Iterable[PolicyResult],
) -> tuple[dict[Outcome, Condition], dict[Outcome, list[Condition]]]:
    """Return the first certain result of each effect, and the conditions of each effect."""
    certain: dict[Outcome, Condition] = {}
    conditional: dict[Outcome, list[Condition]] = {effect: [] for effect in _BY_STRENGTH}
    for result in results:
        if result.is_unconditional:
            certain.setdefault(result.effect, result.condition)
        else:
            conditional[result.effect].append(result.condition)
    return certain, conditional


def _always_true(_data: ConditionsData) -> ConditionResult:
    return Truth.TRUE
