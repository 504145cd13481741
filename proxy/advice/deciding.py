"""Decisions about many requests, asked of a cluster: the plan and the evaluation of serving."""

import asyncio

from proxy.advice.cluster import Cluster
from proxy.core.access_check import AccessCheck
from proxy.core.action import Action
from proxy.core.evaluation import Answer, Ask, Verdict, evaluate
from proxy.core.identity import Caller, Identity
from proxy.core.legacy_policy import LegacyAction, LegacyPolicy
from proxy.core.plan import DecisionRules, plan_attempts

_CONSTRAINED_ONLY = DecisionRules(legacy=LegacyPolicy(LegacyAction.DENY))
_NO = Answer(allowed=False)


class Decider:
    """Decides by the constrained modes alone. No check is asked twice."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[AccessCheck, asyncio.Future[Answer]] = {}

    async def decide(self, caller: Caller, wanted: Identity, action: Action) -> Verdict:
        """Return what would become of a request."""
        evaluation = evaluate(plan_attempts(caller, wanted, action, rules=_CONSTRAINED_ONLY))
        try:
            question = next(evaluation)
            while True:
                # Nothing is known from a moment ago.
                answer = await self.ask(question.check) if isinstance(question, Ask) else _NO
                question = evaluation.send(answer)
        except StopIteration as decided:
            verdict: Verdict = decided.value
            return verdict

    async def ask(self, check: AccessCheck) -> Answer:
        """Return the authorizers' answer to one check."""
        known = self._asked.get(check)
        if known is None:
            known = self._asked[check] = asyncio.get_running_loop().create_future()
            try:
                known.set_result(await self._cluster.review(check))
            finally:
                # Whoever waits for the same answer must not wait for ever.
                known.cancel()
        return await known
