"""Building of conditions maps, with the checks of kube-apiserver in its order."""

from collections.abc import Sequence

from proxy.core.authorization.decision import (
    FAILED_CLOSED,
    Condition,
    ConditionsMap,
    Decision,
    NoOpinion,
    Outcome,
    decide,
)
from proxy.core.authorization.rules import (
    MAX_CONDITIONS,
    RULES_1_38,
    AlgebraRules,
    condition_bytes,
    condition_error,
)
from proxy.core.gocompat.quote import go_quote

_NO_CONDITIONS = (
    "at least one condition must be passed to ConditionsAwareDecisionConditionsMap(), got none"
)


def make_conditions_map(
    deny: Sequence[Condition] = (),
    no_opinion: Sequence[Condition] = (),
    allow: Sequence[Condition] = (),
    *,
    rules: AlgebraRules = RULES_1_38,
    failure: Outcome | None = None,
) -> Decision:
    """Return the decision that has these conditions by effect; an invalid map fails closed.

    An invalid map is Deny if it has a Deny condition, otherwise NoOpinion. A stated `failure`
    replaces that.
    """
    count = len(deny) + len(no_opinion) + len(allow)
    if not count:
        return NoOpinion("no conditions", (_NO_CONDITIONS,))
    derived = Outcome.DENY if deny else Outcome.NO_OPINION
    if count > MAX_CONDITIONS:
        error = f"too many conditions: {count} exceeds maximum of {MAX_CONDITIONS}"
        return decide(failure or derived, FAILED_CLOSED, (error,))
    if (deny or allow) and (error := _first_error((*deny, *no_opinion, *allow), rules)):
        return decide(failure or derived, FAILED_CLOSED, (error,))
    return reduced_map(deny, no_opinion, allow, failure=failure)


def reduced_map(
    deny: Sequence[Condition],
    no_opinion: Sequence[Condition],
    allow: Sequence[Condition],
    *,
    failure: Outcome | None,
) -> ConditionsMap | NoOpinion:
    """Return the decision that has these conditions of a valid map, which are not all gone."""
    if not deny and not allow:
        return NoOpinion("only NoOpinion conditions always evaluate to NoOpinion")
    return ConditionsMap(tuple(deny), tuple(no_opinion), tuple(allow), failure)


def _first_error(conditions: Sequence[Condition], rules: AlgebraRules) -> str:
    seen: set[str] = set()
    for condition in conditions:
        if condition.id in seen:
            return f"duplicate condition ID {go_quote(condition.id)}"
        seen.add(condition.id)
        if error := condition_error(condition, rules):
            return error
    size = sum(map(condition_bytes, conditions))
    if rules.max_bytes is not None and size > rules.max_bytes:
        return f"conditions of {size} bytes exceed the maximum of {rules.max_bytes} bytes"
    return ""
