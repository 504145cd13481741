"""Decisions about many requests, asked of a cluster: the plan and the evaluation of serving."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import Ask, ImpersonationDecision, evaluate
from proxy.core.impersonation.policy import LegacyAction, LegacyPolicy
from proxy.core.rbac.who_can import (
    Found,
    Holder,
    Requirement,
    requirements,
    user_of_caller,
)
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo

_CONSTRAINED_ONLY = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))
_NO = CheckResult(allowed=False)


class ImpersonationDecider:
    """Decides by the constrained modes alone. No check is asked twice."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[AccessCheck, asyncio.Future[CheckResult]] = {}

    async def decide(
        self, caller: Caller, wanted_user: UserInfo, request_info: RequestInfo
    ) -> ImpersonationDecision:
        """Return what would become of a request."""
        evaluation = evaluate(
            plan_attempts(caller, wanted_user, request_info, rules=_CONSTRAINED_ONLY)
        )
        try:
            question = next(evaluation)
            while True:
                # Nothing is known from a moment ago.
                result = await self.check(question.check) if isinstance(question, Ask) else _NO
                question = evaluation.send(result)
        except StopIteration as decided:
            decision: ImpersonationDecision = decided.value
            return decision

    async def check(self, check: AccessCheck) -> CheckResult:
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


class ConfirmedHolder(NamedTuple):
    """Somebody who may, as whom, and whether the API server says so."""

    holder: Holder
    wanted_user: UserInfo
    is_confirmed: bool


async def confirm_holders(
    cluster: Cluster, found: Sequence[Found], request_info: RequestInfo
) -> list[ConfirmedHolder]:
    """Ask about everyone who was found, by the same checks."""
    decider = ImpersonationDecider(cluster)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_confirm(decider, one, request_info)) for one in found]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


async def _confirm(
    decider: ImpersonationDecider, found: Found, request_info: RequestInfo
) -> ConfirmedHolder:
    wanted_user, holder = found
    caller = user_of_caller(holder, wanted_user)
    for requirement in requirements(holder.mode, wanted_user, request_info) or ():
        if not await _is_met(decider, requirement, caller):
            return ConfirmedHolder(holder, wanted_user, is_confirmed=False)
    return ConfirmedHolder(holder, wanted_user, is_confirmed=True)


async def _is_met(
    decider: ImpersonationDecider, requirement: Requirement, caller: UserInfo
) -> bool:
    for check in requirement:
        result = await decider.check(replace(check, user=caller))
        if result.allowed:
            return True
    return False
