"""Chains of authorizers: in which order they are asked, and how their decision is evaluated.

Both are generators without I/O. They yield what the driver must get from an authorizer, and are
sent the result. The driver gets it from a policy, a webhook or a test.
"""

from collections.abc import Collection, Generator, Sequence
from typing import NamedTuple

from proxy.core.authorization.decision import (
    Conditional,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Deny,
    Errors,
    NamedDecision,
    NoOpinion,
    Unconditional,
    aggregate_errors,
    fail_closed,
    has_final_leaf,
    list_outcomes,
    outcome_of,
    possible_outcomes,
)
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules
from proxy.core.authorization.union import make_union
from proxy.core.gocompat.quote import go_quote

EVALUATION_NOT_SUPPORTED = Deny("", ("condition evaluation not supported",))
"""The evaluation result of an authorizer that has no conditions."""

_ONLY_UNIONS = "the union authorizer can only evaluate union ConditionsAwareDecisions"


class MemberEvaluation(NamedTuple):
    """A request to evaluate a conditional decision. Only the named authorizer may do it."""

    name: str
    decision: Conditional


def check_chain_names(names: Sequence[str]) -> None:
    """Raise ValueError if authorizers of these names cannot form a chain."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise ValueError("empty AuthorizerName in union.New is invalid")
        if name in seen:
            raise ValueError(f"duplicate AuthorizerName {go_quote(name)} in union.New")
        seen.add(name)


def ask_chain(
    names: Sequence[str], *, rules: AlgebraRules = RULES_1_38
) -> Generator[str, Decision, Decision]:
    """Yield the names of authorizers to ask, receive their decisions, return the chain's.

    A conditional Allow does not end it: a later authorizer may decide if the conditions do not.
    """
    members: list[NamedDecision] = []
    for name in names:
        decision = yield name
        members.append(NamedDecision(name, decision))
        if has_final_leaf(decision):
            break
    return make_union(members, rules=rules)


def evaluate_chain(
    decision: Decision, names: Collection[str]
) -> Generator[MemberEvaluation, Unconditional, Unconditional]:
    """Yield what authorizers of a chain must evaluate, receive their results, return the chain's.

    `names` are the authorizers that exist. A result that was not possible fails closed.
    """
    if not isinstance(decision, DecisionUnion):
        return fail_closed(decision, _ONLY_UNIONS)
    reasons: list[str] = []
    errors: list[Errors] = []
    for name, member in ((member.name, member.decision) for member in decision.members):
        if isinstance(member, ConditionsMap | DecisionUnion):
            if name in names:
                result = _checked(member, (yield MemberEvaluation(name, member)))
            else:
                error = f"couldn't find authorizer with name: {go_quote(name)}"
                result = fail_closed(member, error)
        else:
            result = member
        if not isinstance(result, NoOpinion):
            return result
        reasons += [f"{name}: {result.reason}"] if result.reason else []
        errors.append(result.errors)
    return NoOpinion("\n".join(reasons), aggregate_errors(errors))


def _checked(decision: Conditional, result: Unconditional) -> Unconditional:
    """Return the result of evaluating a decision, or the failure decision if it is impossible."""
    possible = possible_outcomes(decision)
    if (outcome := outcome_of(result)) in possible:
        return result
    return fail_closed(
        decision,
        f"evaluated to decision {outcome.value}, but only {list_outcomes(possible)} were possible",
    )
