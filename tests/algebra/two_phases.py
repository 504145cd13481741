"""Random policies and chains of authorizers, decided in one phase and in two (law 5).

A condition is a table: what is known at the first phase selects a row, and the later data a result.
"""

from collections.abc import Generator
from dataclasses import dataclass
from random import Random

from proxy.core.authorization.chain import MemberEvaluation, ask_chain, evaluate_chain
from proxy.core.authorization.decision import (
    Condition,
    ConditionResult,
    ConditionsData,
    ConditionsMap,
    Decision,
    DecisionUnion,
    FailedEvaluation,
    Outcome,
    Truth,
    Unconditional,
    decide,
    outcome_of,
)
from proxy.core.authorization.evaluation import evaluate_map, evaluate_partially
from proxy.core.authorization.folding import fold_unexpected
from proxy.core.authorization.residuals import PolicyResult, decide_from_policies
from proxy.core.authorization.rules import RULES_1_38, AlgebraRules

LATER = ("create-dev", "create-prod", "update")
_RESULTS: tuple[ConditionResult, ...] = (Truth.TRUE, Truth.FALSE, FailedEvaluation("no such key"))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy for a request: what it gives for each value of the later data."""

    id: str
    effect: Outcome
    table: tuple[ConditionResult, ...]
    is_reduced: bool
    """Whether partial evaluation finds that the result is always true, or that it never matters."""
    is_built_in: bool
    """Whether the condition evaluates itself, or its author must be called back."""

    def result(self, data: ConditionsData) -> ConditionResult:
        """Return what the policy gives for this data."""
        return self.table[LATER.index(str(data["later"]))]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """An authorizer with policies, one with a fixed decision, or a chain of others."""

    policies: tuple[Policy, ...] = ()
    fixed: Unconditional | None = None
    chain: "tuple[Authorizer, ...] | None" = None


def make_chain(random: Random, *, depth: int = 0) -> tuple[Authorizer, ...]:
    """Return a random chain."""
    return tuple(_make_authorizer(random, depth=depth) for _ in range(random.randint(0, 4)))


def decide_in_one_phase(chain: tuple[Authorizer, ...], later: str) -> Outcome:
    """Return the decision of a chain in which everything is known at once."""
    for authorizer in chain:
        outcome = _decide_at_once(authorizer, later)
        if outcome is not Outcome.NO_OPINION:
            return outcome
    return Outcome.NO_OPINION


def decide_in_two_phases(
    chain: tuple[Authorizer, ...],
    later: str,
    *,
    in_process: bool,
    rules: AlgebraRules = RULES_1_38,
) -> Outcome:
    """Return the decision of a chain that is asked without the later data, then evaluated with it.

    `in_process` first evaluates in part what evaluates itself, as the proxy does.
    """
    data: ConditionsData = {"later": later}
    decision = _ask(chain)
    if in_process:
        decision = evaluate_partially(decision, data, rules=rules)
    if isinstance(decision, DecisionUnion):
        return outcome_of(_evaluate(chain, decision, data))
    return outcome_of(fold_unexpected(decision))


def _decide_at_once(authorizer: Authorizer, later: str) -> Outcome:
    """Return the decision by the strength of effects, without the code that is tested."""
    if authorizer.fixed is not None:
        return outcome_of(authorizer.fixed)
    if authorizer.chain is not None:
        return decide_in_one_phase(authorizer.chain, later)
    at = LATER.index(later)
    results = [(policy.effect, policy.table[at]) for policy in authorizer.policies]
    for effect in (Outcome.DENY, Outcome.NO_OPINION):
        if any(one is effect and result is not Truth.FALSE for one, result in results):
            return effect
    allows = any(one is Outcome.ALLOW and result is Truth.TRUE for one, result in results)
    return Outcome.ALLOW if allows else Outcome.NO_OPINION


def _make_authorizer(random: Random, *, depth: int) -> Authorizer:
    roll = random.random()
    if roll < 0.15:
        return Authorizer(fixed=decide(random.choice(tuple(Outcome))))
    if roll < 0.3 and depth < 2:
        return Authorizer(chain=make_chain(random, depth=depth + 1))
    count = random.randint(0, 5)
    return Authorizer(
        policies=tuple(_make_policy(random, f"example.com/p{number}") for number in range(count))
    )


def _make_policy(random: Random, id_: str) -> Policy:
    weights = random.choice(((1, 3, 1), (1, 1, 0), (6, 1, 0), (0, 4, 1)))
    return Policy(
        id_,
        random.choice(tuple(Outcome)),
        tuple(random.choices(_RESULTS, weights, k=len(LATER))),
        is_reduced=random.random() < 0.7,
        is_built_in=random.random() < 0.5,
    )


def _ask(chain: tuple[Authorizer, ...]) -> Decision:
    asking = ask_chain([f"a{number}" for number in range(len(chain))])
    try:
        name = next(asking)
        while True:
            name = asking.send(_first_decision(chain[int(name[1:])]))
    except StopIteration as end:
        decision: Decision = end.value
        return decision


def _first_decision(authorizer: Authorizer) -> Decision:
    if authorizer.fixed is not None:
        return authorizer.fixed
    if authorizer.chain is not None:
        return _ask(authorizer.chain)
    return decide_from_policies(
        result for policy in authorizer.policies if (result := _policy_result(policy)) is not None
    )


def _policy_result(policy: Policy) -> PolicyResult | None:
    """Return what partial evaluation gives; a policy that cannot matter gives nothing."""
    condition = Condition(policy.id, evaluate=policy.result if policy.is_built_in else None)
    if policy.is_reduced:
        if all(result is Truth.TRUE for result in policy.table):
            return PolicyResult(policy.effect, condition, is_unconditional=True)
        # An error matters to Deny and NoOpinion, but never to Allow.
        never = (Truth.FALSE,)
        if all(
            result in never or (policy.effect is Outcome.ALLOW and result is not Truth.TRUE)
            for result in policy.table
        ):
            return None
    return PolicyResult(policy.effect, condition)


def _evaluate(
    chain: tuple[Authorizer, ...], decision: Decision, data: ConditionsData
) -> Unconditional:
    names = [f"a{number}" for number in range(len(chain))]
    evaluating: Generator[MemberEvaluation, Unconditional, Unconditional]
    evaluating = evaluate_chain(decision, names)
    try:
        wanted = next(evaluating)
        while True:
            authorizer = chain[int(wanted.name[1:])]
            wanted = evaluating.send(_evaluate_own(authorizer, wanted.decision, data))
    except StopIteration as end:
        evaluated: Unconditional = end.value
        return evaluated


def _evaluate_own(
    authorizer: Authorizer, decision: Decision, data: ConditionsData
) -> Unconditional:
    if isinstance(decision, ConditionsMap):
        policies = {policy.id: policy for policy in authorizer.policies}

        def evaluate(condition: Condition, data: ConditionsData) -> bool | FailedEvaluation:
            result = policies[condition.id].result(data)
            return result if isinstance(result, FailedEvaluation) else result is Truth.TRUE

        return evaluate_map(decision, data, evaluate)
    assert authorizer.chain is not None
    return _evaluate(authorizer.chain, decision, data)
