"""Intents before a cluster: what is granted there already, and whether they came true."""

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from proxy.analysis.access import ImpersonationDecider
from proxy.analysis.cluster import Cluster, ClusterError
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.checks import access_check_for
from proxy.core.impersonation.evaluation import Allowed, check_summary
from proxy.core.impersonation.modes import impersonated_user
from proxy.core.rbac.intent.cases import ExpectedDecision, expected_decisions
from proxy.core.rbac.intent.model import Intent, existing_warnings
from proxy.core.rbac.model import RBACSnapshot, read_rbac
from proxy.core.rbac.resources import BUILT_IN, APIResource, ResourceCatalog
from proxy.core.userinfo import UserInfo

_ROLE_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")


class CaseResult(NamedTuple):
    """What became of a trial."""

    trial: ExpectedDecision
    is_allowed: bool

    @property
    def is_as_meant(self) -> bool:
        """Tell whether the intent came true in this."""
        return self.trial.is_meant == self.is_allowed


async def verify_intents(cluster: Cluster, intents: Sequence[Intent]) -> list[CaseResult]:
    """Ask whether everything meant is allowed, and its neighbours are not."""
    decider = ImpersonationDecider(cluster)
    planned = expected_decisions(intents)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    decider.decide(trial.caller, trial.wanted_user, trial.request_info)
                )
                for trial in planned
            ]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [
        CaseResult(trial, isinstance(task.result(), Allowed))
        for trial, task in zip(planned, tasks, strict=True)
    ]


async def cluster_warnings(cluster: Cluster, intents: Sequence[Intent]) -> list[str]:
    """Return what the cluster's present rights make of the intents."""
    warnings = existing_warnings(intents, await cluster_rbac(cluster))
    return warnings + await _own_rights(cluster, intents)


async def cluster_rbac(cluster: Cluster) -> RBACSnapshot:
    """Return the bindings of a cluster."""
    return read_rbac(await cluster_objects(cluster))


async def cluster_objects(cluster: Cluster) -> list[dict[str, Any]]:
    """Return every role and binding, with what a list leaves out of its items."""
    found = await cluster.rbac()
    lists = (found.roles, found.cluster_roles, found.role_bindings, found.cluster_role_bindings)
    return [
        {**thing, "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}
        for kind, things in zip(_ROLE_KINDS, lists, strict=True)
        for thing in things
    ]


async def cluster_catalogue(cluster: Cluster) -> ResourceCatalog:
    """Return the resources that a cluster serves, beside those that every cluster does."""
    groups = (await cluster.get("/apis")).get("groups") or []
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    paths = ["/api/v1", *(f"/apis/{version}" for version in versions)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_served(cluster, path)) for path in paths]
    return BUILT_IN.extended(chain.from_iterable(task.result() for task in tasks))


async def _served(cluster: Cluster, path: str) -> list[APIResource]:
    try:
        document = await cluster.get(path)
    except ClusterError:
        # The server behind this group is away: nothing is known of it, so nothing is wrong with it.
        return []
    group = str(document.get("groupVersion")).rpartition("/")[0]
    entries = document.get("resources") or []
    return [APIResource(group, entry["name"], bool(entry.get("namespaced"))) for entry in entries]


async def _own_rights(cluster: Cluster, intents: Sequence[Intent]) -> list[str]:
    """Return what targets may not do themselves, so that acting as them is of no use."""
    checks: dict[AccessCheck, UserInfo] = {}
    for trial in expected_decisions(intents):
        if (
            trial.is_meant
            and trial.request_info.is_resource
            and not _stands_for_many(trial, intents)
        ):
            mode = next(one.mode for one in intents if _is_target(one, trial))
            acting = impersonated_user(mode, trial.wanted_user)
            checks[access_check_for(trial.request_info, trial.request_info.verb, user=acting)] = (
                acting
            )
    answers = await cluster.review_all(list(checks))
    lacking: dict[str, list[str]] = {}
    for (check, acting), result in zip(checks.items(), answers, strict=True):
        if not result.allowed:
            lacking.setdefault(acting.name, []).append(check_summary(check))
    return [
        f"{name} itself may not {deeds[0]}{_and_more(deeds)}: who acts as it may no more than it"
        for name, deeds in lacking.items()
    ]


def _and_more(deeds: Sequence[str]) -> str:
    return f" (and {len(deeds) - 1} more)" if len(deeds) > 1 else ""


def _stands_for_many(trial: ExpectedDecision, intents: Sequence[Intent]) -> bool:
    """Tell whether the target is an example of many, whose rights nobody knows."""
    return all(trial.wanted_user not in one.targets for one in intents)


def _is_target(intent: Intent, trial: ExpectedDecision) -> bool:
    return any(one.matches(trial.caller.user) for one in intent.impersonators)
