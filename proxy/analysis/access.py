"""Decisions about many requests, asked of a cluster: the plan and the evaluation of serving."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.core.authorization.access_check import AccessCheck, Answer
from proxy.core.impersonation.checks import DecisionRules, plan_attempts
from proxy.core.impersonation.evaluation import Ask, Verdict, evaluate
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.rbac.who_can import (
    Found,
    Holder,
    Requirement,
    caller_identity,
    requirements,
)
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import Caller, Identity

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


class Told(NamedTuple):
    """Somebody who may, as whom, and whether the API server says so."""

    holder: Holder
    wanted: Identity
    is_confirmed: bool


async def confirmed(cluster: Cluster, found: Sequence[Found], action: Action) -> list[Told]:
    """Ask about everyone who was found, by the same checks."""
    decider = Decider(cluster)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_confirm(decider, one, action)) for one in found]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


async def _confirm(decider: Decider, found: Found, action: Action) -> Told:
    wanted, holder = found
    caller = caller_identity(holder, wanted)
    for requirement in requirements(holder.mode, wanted, action) or ():
        if not await _is_met(decider, requirement, caller):
            return Told(holder, wanted, is_confirmed=False)
    return Told(holder, wanted, is_confirmed=True)


async def _is_met(decider: Decider, requirement: Requirement, caller: Identity) -> bool:
    for check in requirement:
        answer = await decider.ask(replace(check, user=caller))
        if answer.allowed:
            return True
    return False
