"""Unions: the decisions of several authorizers as one decision."""

from collections.abc import Iterable, Iterator, Sequence

from proxy.core.authorization.decision import (
    FAILED_CLOSED,
    VARIANTS,
    Condition,
    ConditionsMap,
    Decision,
    DecisionUnion,
    Errors,
    NamedDecision,
    aggregate_errors,
    decide,
    failure_among,
    has_final_leaf,
    possible_outcomes_of,
    prefix_error,
)
from proxy.core.authorization.rules import (
    RULES_1_38,
    AlgebraRules,
    condition_bytes,
    subdomain_errors,
)
from proxy.core.gocompat.quote import go_quote


def make_union(members: Iterable[NamedDecision], *, rules: AlgebraRules = RULES_1_38) -> Decision:
    """Return the decision of these members. An invalid name or size fails closed.

    Members behind an unconditional Allow or Deny are left out unchecked: they decide nothing.
    """
    kept = list(_until_final(members))
    errors = [*_name_errors(kept, rules), *_limit_errors(kept, rules)]
    if errors:
        outcome = failure_among(possible_outcomes_of(kept))
        return decide(outcome, FAILED_CLOSED, aggregate_errors((error,) for error in errors))
    return reduced_union(kept)


def reduced_union(members: Sequence[NamedDecision]) -> Decision:
    """Return the decision of members of a valid union, none of them behind a final one."""
    possible = possible_outcomes_of(members)
    if len(possible) > 1:
        return DecisionUnion(tuple(members))
    (outcome,) = possible
    reasons: list[str] = []
    errors: list[Errors] = []
    for name, decision in ((member.name, member.decision) for member in members):
        # A union inside has two possible outcomes or more, so the deciding leaf is not in it.
        if isinstance(decision, VARIANTS[outcome]):
            reasons += [f"{name}: {{{decision.reason}}}"] if decision.reason else []
            errors.append(prefix_error(name, decision.errors))
    return decide(outcome, ", ".join(reasons), aggregate_errors(errors))


def _until_final(members: Iterable[NamedDecision]) -> Iterator[NamedDecision]:
    for member in members:
        yield member
        if has_final_leaf(member.decision):
            return


def _name_errors(members: Sequence[NamedDecision], rules: AlgebraRules) -> Iterator[str]:
    seen: set[str] = set()
    for member in members:
        if not member.name:
            yield f"{rules.name_word} must be non-empty"
        if member.name in seen:
            yield f"duplicate {rules.name_word} {go_quote(member.name)}"
        if rules.has_dns_names and (errors := subdomain_errors(member.name)):
            yield f"invalid {rules.name_word}: [{' '.join(errors)}]"
        seen.add(member.name)


def _limit_errors(members: Sequence[NamedDecision], rules: AlgebraRules) -> Iterator[str]:
    if rules.max_members is not None and len(members) > rules.max_members:
        yield f"too many members: {len(members)} exceeds maximum of {rules.max_members}"
    depth = 1 + max((_depth(member.decision) for member in members), default=0)
    if rules.max_depth is not None and depth > rules.max_depth:
        yield f"decision of depth {depth} exceeds the maximum of {rules.max_depth}"
    size = sum(_bytes(member.decision) for member in members)
    if rules.max_bytes is not None and size > rules.max_bytes:
        yield f"decision of {size} bytes exceeds the maximum of {rules.max_bytes} bytes"


def _depth(decision: Decision) -> int:
    if not isinstance(decision, DecisionUnion):
        return 1
    return 1 + max(_depth(member.decision) for member in decision.members)


def _bytes(decision: Decision) -> int:
    match decision:
        case DecisionUnion(members=members):
            return sum(_bytes(member.decision) + len(member.name) for member in members)
        case ConditionsMap(deny=deny, no_opinion=no_opinion, allow=allow):
            conditions: tuple[Condition, ...] = deny + no_opinion + allow
            return sum(map(condition_bytes, conditions))
        case _:
            return 0
