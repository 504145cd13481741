"""Impersonation decisions for many requests, by the plan and the evaluation of serving."""

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
    Holder,
    ImpersonationHolder,
    Requirement,
    requirements,
    user_of_caller,
)
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo

_CONSTRAINED_ONLY = ImpersonationRules(legacy=LegacyPolicy(LegacyAction.DENY))
_NO = CheckResult(allowed=False)


class ImpersonationDecider:
    """Decides by the constrained modes only. No check is sent twice."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._results: dict[AccessCheck, asyncio.Future[CheckResult]] = {}

    async def decide(
        self, caller: Caller, wanted_user: UserInfo, request_info: RequestInfo
    ) -> ImpersonationDecision:
        """Return the impersonation decision of a request."""
        evaluation = evaluate(
            plan_attempts(caller, wanted_user, request_info, rules=_CONSTRAINED_ONLY)
        )
        try:
            step = next(evaluation)
            while True:
                # The mode cache is treated as empty.
                result = await self.check(step.check) if isinstance(step, Ask) else _NO
                step = evaluation.send(result)
        except StopIteration as decided:
            decision: ImpersonationDecision = decided.value
            return decision

    async def check(self, check: AccessCheck) -> CheckResult:
        """Return the result of one access check."""
        known = self._results.get(check)
        if known is None:
            known = self._results[check] = asyncio.get_running_loop().create_future()
            try:
                known.set_result(await self._cluster.review(check))
            finally:
                # A failed review must not leave other waiters of the same check waiting forever.
                known.cancel()
        return await known


class ConfirmedHolder(NamedTuple):
    """A holder, the wanted user, and whether the API server confirms the permission."""

    holder: Holder
    wanted_user: UserInfo
    is_confirmed: bool


async def confirm_holders(
    cluster: Cluster, found: Sequence[ImpersonationHolder], request_info: RequestInfo
) -> list[ConfirmedHolder]:
    """Send the checks of every holder that was found to the API server."""
    decider = ImpersonationDecider(cluster)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_confirm(decider, pair, request_info)) for pair in found]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


async def _confirm(
    decider: ImpersonationDecider, found: ImpersonationHolder, request_info: RequestInfo
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
