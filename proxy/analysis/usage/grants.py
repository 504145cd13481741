"""Migration from legacy impersonation: grants that replace it, and uses that none can replace."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from proxy.analysis.usage.collector import ImpersonatorUsage, ModeUsage, UsageCollector
from proxy.analysis.usage.events import (
    ASSOCIATED_NODE,
    NO_MODE,
    PATTERNS,
    UsedRequest,
    reason_without_legacy,
)
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.evaluation import NO_CONSTRAINED_MODE as NO_MODE_REASON
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import (
    GrantObject,
    GrantPurpose,
    GrantRequirement,
    UngrantableError,
    grant_objects,
    needed_checks,
)
from proxy.core.rbac.model import Subject, subject_of
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import MASTERS, UserInfo

if TYPE_CHECKING:
    # Not imported at run time: a report without a cluster does not load the client libraries.
    from proxy.analysis.cluster import Cluster

Granted = Mapping[str, Collection[AccessCheck]]
"""The checks that a cluster already allows, by impersonator."""

_ANY_NODE = UserInfo("system:node:any")
_STREAMING = frozenset({"exec", "attach", "portforward"})
_MAX_SHOWN = 5
_PURPOSE = "replaces legacy impersonation"
_STREAM_VERBS = {"get": "create", "create": "get"}


@dataclass(frozen=True, slots=True)
class UngrantableUse:
    """A use of legacy that no grant can replace."""

    what: str
    reason: str
    remedy: str
    requests: int


@dataclass(slots=True)
class MigrationPlan:
    """Consequences for one impersonator if legacy is disabled."""

    grants: list[GrantObject] = field(default_factory=list)
    broken: list[UngrantableUse] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] | None = None
    """The checks that the cluster denies today, or None if it was not queried."""


class RequiredGrant(NamedTuple):
    """An identity or an action that must be granted, and the checks for it alone."""

    need: GrantRequirement
    checks: tuple[AccessCheck, ...]


def plan_migration(
    name: str, impersonator: ImpersonatorUsage, granted: Collection[AccessCheck] | None = None
) -> MigrationPlan:
    """Return the grants that replace the legacy permissions in use, and the uses that they cannot.

    Permissions in `granted` are not granted again.
    """
    plan = MigrationPlan()
    needed = required_grants(name, impersonator, plan)
    if granted is not None:
        needed = [grant for grant in needed if any(check not in granted for check in grant.checks)]
        checks = dict.fromkeys(check for grant in needed for check in grant.checks)
        plan.missing = [check_summary(check) for check in checks if check not in granted]
    targets = dict.fromkeys(grant.need.wanted_user.name for grant in needed)
    purpose = GrantPurpose(
        caller=name, target=", ".join(targets), purpose=_PURPOSE, made_by="understudy report"
    )
    plan.grants = grant_objects((grant.need for grant in needed), purpose=purpose)
    if impersonator.over_limit:
        plan.notes.append(
            f"{impersonator.over_limit} requests exceed the number of entries (--most): they are "
            "counted, but not in the grants"
        )
    return plan


def required_grants(
    name: str, impersonator: ImpersonatorUsage, plan: MigrationPlan
) -> list[RequiredGrant]:
    """Return what has to be granted, and add to the plan what cannot be granted."""
    subject = subject_of(UserInfo(name))
    needed: list[RequiredGrant] = []
    for mode, use in impersonator.modes.items():
        if mode == NO_MODE:
            plan.broken += _ungrantable_uses(use)
        else:
            needed += _needed_in(subject, ImpersonationMode(mode), use, plan)
    return needed


def describe_identity(wanted_user: UserInfo) -> str:
    """Return a user as one line of text."""
    if wanted_user == ASSOCIATED_NODE:
        return "the node it runs on"
    parts = [wanted_user.name]
    if wanted_user.uid:
        parts.append(f"uid {wanted_user.uid}")
    if wanted_user.groups:
        parts.append("groups " + ", ".join(group or '""' for group in wanted_user.groups))
    if wanted_user.extra:
        parts.append("extras " + ", ".join(key for key, _ in wanted_user.extra))
    return "; ".join(parts)


def describe_request(action: UsedRequest) -> str:
    """Return the object of an action: a resource in kubectl's notation, or a path."""
    if action.path:
        return action.path
    kind = f"{action.resource}.{action.group}" if action.group else action.resource
    return f"{kind}/{action.subresource}" if action.subresource else kind


def _ungrantable_uses(use: ModeUsage) -> Iterator[UngrantableUse]:
    for wanted_user, count in use.identities.items():
        if count.needs_grant:
            reason = reason_without_legacy(wanted_user) or NO_MODE_REASON
            yield UngrantableUse(
                describe_identity(wanted_user), reason, _remedy(wanted_user, reason), count.legacy
            )


def _remedy(wanted_user: UserInfo, reason: str) -> str:
    if reason == NO_MODE_REASON:
        return (
            "impersonate by name alone: the groups of nodes and service accounts are implied, "
            "a uid and extras are not supported"
        )
    if MASTERS in wanted_user.groups:
        return "impersonate a dedicated group that is bound to the required roles"
    return ""


def _needed_in(
    subject: Subject, mode: ImpersonationMode, use: ModeUsage, plan: MigrationPlan
) -> list[RequiredGrant]:
    """Return what must be granted in a mode, each action and each identity once."""
    identities = {
        wanted_user: count for wanted_user, count in use.identities.items() if count.needs_grant
    }
    if not identities:
        return []
    example = _as_target(next(iter(identities)))
    needed: list[RequiredGrant] = []
    for request_info, used, requests in _actions(use):
        is_pattern = request_info.path in PATTERNS
        need = GrantRequirement(subject, mode, example, (request_info,), has_patterns=is_pattern)
        checks = _checks(need, f"{used.verb} {describe_request(used)}", requests, plan)
        if checks:
            needed.append(RequiredGrant(need, checks[:1]))
    if not needed:
        return []
    for wanted_user, count in identities.items():
        need = replace(needed[0].need, wanted_user=_as_target(wanted_user))
        checks = _checks(need, describe_identity(wanted_user), count.legacy, plan)
        if checks:
            needed.append(RequiredGrant(need, checks[1:]))
    plan.notes += _notes(mode, use, len(identities))
    return needed


def _as_target(wanted_user: UserInfo) -> UserInfo:
    return _ANY_NODE if wanted_user == ASSOCIATED_NODE else wanted_user


def _checks(
    need: GrantRequirement, what: str, requests: int, plan: MigrationPlan
) -> tuple[AccessCheck, ...]:
    """Return the check for the action and those for the identity, or nothing if ungrantable."""
    try:
        return needed_checks(need)
    except UngrantableError as error:
        plan.broken.append(UngrantableUse(what, str(error), "", requests))
        return ()


def _actions(use: ModeUsage) -> Iterator[tuple[RequestInfo, UsedRequest, int]]:
    for used, namespaces in use.actions.items():
        for namespace, count in namespaces.counts.items():
            if not count.needs_grant:
                continue
            yield used.request_info(namespace), used, count.legacy
            if _is_streaming(used):
                # Clients use either verb, and another version of a client uses the other one.
                other = used._replace(verb=_STREAM_VERBS[used.verb])
                yield other.request_info(namespace), used, count.legacy


def _is_streaming(used: UsedRequest) -> bool:
    is_pod = (used.group, used.resource) == ("", "pods")
    return is_pod and used.subresource in _STREAMING and used.verb in _STREAM_VERBS


def _notes(mode: ImpersonationMode, use: ModeUsage, identities: int) -> Iterator[str]:
    if identities > 1 and len(use.actions) > 1:
        yield f"{mode}: RBAC allows each of these identities for each of these actions"
    if mode in {ImpersonationMode.ASSOCIATED_NODE, ImpersonationMode.ARBITRARY_NODE}:
        yield (
            f"{mode}: impersonated nodes will have the group system:nodes, which legacy "
            "impersonation does not add"
        )
    widened = [
        f"{used.verb} {describe_request(used)}"
        for used, namespaces in use.actions.items()
        if namespaces.is_widened
    ]
    if widened:
        shown = ", ".join(sorted(widened)[:_MAX_SHOWN])
        more = len(widened) - _MAX_SHOWN
        yield (
            f"{mode}: used in too many namespaces (--namespaces), so granted in all: {shown}"
            + (f", and {more} more" if more > 0 else "")
        )


async def existing_grants(cluster: "Cluster", usage: UsageCollector) -> Granted:
    """Return which of the required checks the cluster already allows, by impersonator."""
    return {
        name: await _allowed_checks(cluster, name, impersonator)
        for name, impersonator in usage.impersonators.items()
    }


async def _allowed_checks(
    cluster: "Cluster", name: str, impersonator: ImpersonatorUsage
) -> frozenset[AccessCheck]:
    needed = required_grants(name, impersonator, MigrationPlan())
    checks = list(dict.fromkeys(check for grant in needed for check in grant.checks))
    # The groups are included, because they may have permissions that the name has not.
    user = UserInfo(name, groups=impersonator.groups)
    results = await cluster.review_all([replace(check, user=user) for check in checks])
    return frozenset(check for check, result in zip(checks, results, strict=True) if result.allowed)
