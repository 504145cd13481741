"""Intents checked against a cluster: existing permissions, and verification after applying."""

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
    """An expected decision and the actual one."""

    expected: ExpectedDecision
    is_allowed: bool

    @property
    def is_as_expected(self) -> bool:
        """Return whether the actual decision is the expected one."""
        return self.expected.is_allowed == self.is_allowed


async def verify_intents(cluster: Cluster, intents: Sequence[Intent]) -> list[CaseResult]:
    """Check that everything intended is allowed, and that its neighbours are not."""
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
    """Return warnings about combinations of intents with the cluster's existing permissions."""
    warnings = existing_warnings(intents, await cluster_rbac(cluster))
    return warnings + await _target_warnings(cluster, intents)


async def cluster_rbac(cluster: Cluster) -> RBACSnapshot:
    """Return a snapshot of the RBAC of a cluster."""
    return read_rbac(await cluster_objects(cluster))


async def cluster_objects(cluster: Cluster) -> list[dict[str, Any]]:
    """Return every role and binding, with the apiVersion and kind that list items lack."""
    found = await cluster.rbac()
    lists = (found.roles, found.cluster_roles, found.role_bindings, found.cluster_role_bindings)
    return [
        {**item, "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}
        for kind, items in zip(_ROLE_KINDS, lists, strict=True)
        for item in items
    ]


async def cluster_catalog(cluster: Cluster) -> ResourceCatalog:
    """Return the built-in resources and those that a cluster serves."""
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
        # The server of this group is unavailable. The group stays unknown, so any rule is valid.
        return []
    group = str(document.get("groupVersion")).rpartition("/")[0]
    entries = document.get("resources") or []
    return [APIResource(group, entry["name"], bool(entry.get("namespaced"))) for entry in entries]


async def _target_warnings(cluster: Cluster, intents: Sequence[Intent]) -> list[str]:
    """Return warnings about targets that lack the permission themselves."""
    checks: dict[AccessCheck, UserInfo] = {}
    for trial in expected_decisions(intents):
        if trial.is_allowed and trial.request_info.is_resource and not _is_example(trial, intents):
            mode = next(intent.mode for intent in intents if _has_impersonator(intent, trial))
            target = impersonated_user(mode, trial.wanted_user)
            checks[access_check_for(trial.request_info, trial.request_info.verb, user=target)] = (
                target
            )
    results = await cluster.review_all(list(checks))
    lacking: dict[str, list[str]] = {}
    for (check, target), result in zip(checks.items(), results, strict=True):
        if not result.allowed:
            lacking.setdefault(target.name, []).append(check_summary(check))
    return [
        f"{name} itself may not {actions[0]}{_and_more(actions)}, so impersonating it does not help"
        for name, actions in lacking.items()
    ]


def _and_more(actions: Sequence[str]) -> str:
    return f" (and {len(actions) - 1} more)" if len(actions) > 1 else ""


def _is_example(trial: ExpectedDecision, intents: Sequence[Intent]) -> bool:
    """Return whether the target is only an example of a pattern."""
    return all(trial.wanted_user not in intent.targets for intent in intents)


def _has_impersonator(intent: Intent, trial: ExpectedDecision) -> bool:
    return any(subject.matches(trial.caller.user) for subject in intent.impersonators)
