"""What somebody's legacy impersonations come to without it: grants that mend, and what none can."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.analysis.usage.collector import ImpersonatorUsage, ModeUsage, UsageCollector
from proxy.analysis.usage.events import (
    ASSOCIATED_NODE,
    NO_MODE,
    PATTERNS,
    UsedRequest,
    reason_without_legacy,
)
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.evaluation import NO_MODE as NO_MODE_REASON
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.rbac.grants import (
    GrantObject,
    GrantRequirement,
    UngrantableError,
    grant_objects,
    needed_checks,
)
from proxy.core.rbac.model import Subject, subject_of
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import MASTERS, UserInfo

Granted = Mapping[str, Collection[AccessCheck]]
"""The checks that a cluster answers with yes already, for each impersonator."""

_ANY_NODE = UserInfo("system:node:any")
_STREAMING = frozenset({"exec", "attach", "portforward"})
_MOST_SHOWN = 5
_TWINS = {"get": "create", "create": "get"}


@dataclass(frozen=True, slots=True)
class UngrantableUse:
    """Something that no grant keeps working."""

    what: str
    reason: str
    remedy: str
    requests: int


@dataclass(slots=True)
class MigrationPlan:
    """What becomes of one impersonator without legacy."""

    grants: list[GrantObject] = field(default_factory=list)
    broken: list[UngrantableUse] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] | None = None
    """The checks that the cluster answers with no today; None if it was not asked."""


class RequiredGrant(NamedTuple):
    """An identity or an action that must be granted, and the checks that are about it alone."""

    need: GrantRequirement
    checks: tuple[AccessCheck, ...]


def plan_migration(
    name: str, somebody: ImpersonatorUsage, granted: Collection[AccessCheck] | None = None
) -> MigrationPlan:
    """Return the grants that keep working what was used by legacy, and what they cannot keep.

    What is granted already, if that is known, is not granted again.
    """
    outlook = MigrationPlan()
    needed = required_grants(name, somebody, outlook)
    if granted is not None:
        needed = [one for one in needed if any(check not in granted for check in one.checks)]
        checks = dict.fromkeys(check for one in needed for check in one.checks)
        outlook.missing = [check_summary(check) for check in checks if check not in granted]
    outlook.grants = grant_objects(one.need for one in needed)
    if somebody.beyond:
        outlook.notes.append(
            f"{somebody.beyond} requests named more than is kept apart (--most): they are counted, "
            "and not in the grants"
        )
    return outlook


def required_grants(
    name: str, somebody: ImpersonatorUsage, outlook: MigrationPlan
) -> list[RequiredGrant]:
    """Return what has to be granted; what cannot be is told to the outlook."""
    subject = subject_of(UserInfo(name))
    needed: list[RequiredGrant] = []
    for mode, use in somebody.modes.items():
        if mode == NO_MODE:
            outlook.broken += _hopeless(use)
        else:
            needed += _needed_in(subject, ImpersonationMode(mode), use, outlook)
    return needed


def describe_identity(wanted_user: UserInfo) -> str:
    """Return an identity in one line."""
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
    """Return what an action is done to: a resource as kubectl names it, or a path."""
    if action.path:
        return action.path
    kind = f"{action.resource}.{action.group}" if action.group else action.resource
    return f"{kind}/{action.subresource}" if action.subresource else kind


def _hopeless(use: ModeUsage) -> Iterator[UngrantableUse]:
    for wanted_user, count in use.identities.items():
        if count.needs_grant:
            reason = reason_without_legacy(wanted_user) or NO_MODE_REASON
            yield UngrantableUse(
                describe_identity(wanted_user), reason, _remedy(wanted_user, reason), count.legacy
            )


def _remedy(wanted_user: UserInfo, reason: str) -> str:
    if reason == NO_MODE_REASON:
        return (
            "ask for the bare name: the groups of nodes and service accounts come by themselves, "
            "a uid and extras cannot be had"
        )
    if MASTERS in wanted_user.groups:
        return "act with a group of its own that is bound to what is needed"
    return ""


def _needed_in(
    subject: Subject, mode: ImpersonationMode, use: ModeUsage, outlook: MigrationPlan
) -> list[RequiredGrant]:
    """Return what must be granted in a mode: each action and each identity once."""
    identities = {
        wanted_user: count for wanted_user, count in use.identities.items() if count.needs_grant
    }
    if not identities:
        return []
    somebody = _as_target(next(iter(identities)))
    needed: list[RequiredGrant] = []
    for request_info, used, requests in _actions(use):
        is_pattern = request_info.path in PATTERNS
        need = GrantRequirement(subject, mode, somebody, (request_info,), has_patterns=is_pattern)
        checks = _checks(need, f"{used.verb} {describe_request(used)}", requests, outlook)
        if checks:
            needed.append(RequiredGrant(need, checks[:1]))
    if not needed:
        return []
    for wanted_user, count in identities.items():
        need = replace(needed[0].need, wanted_user=_as_target(wanted_user))
        checks = _checks(need, describe_identity(wanted_user), count.legacy, outlook)
        if checks:
            needed.append(RequiredGrant(need, checks[1:]))
    outlook.notes += _notes(mode, use, len(identities))
    return needed


def _as_target(wanted_user: UserInfo) -> UserInfo:
    return _ANY_NODE if wanted_user == ASSOCIATED_NODE else wanted_user


def _checks(
    need: GrantRequirement, what: str, requests: int, outlook: MigrationPlan
) -> tuple[AccessCheck, ...]:
    """Return the check on the action, and those on the identity; nothing if no grant can help."""
    try:
        return needed_checks(need)
    except UngrantableError as error:
        outlook.broken.append(UngrantableUse(what, str(error), "", requests))
        return ()


def _actions(use: ModeUsage) -> Iterator[tuple[RequestInfo, UsedRequest, int]]:
    for used, places in use.actions.items():
        for namespace, count in places.counts.items():
            if not count.needs_grant:
                continue
            yield used.within(namespace), used, count.legacy
            if _is_streaming(used):
                # One client asks by the one verb, its next version by the other.
                twin = used._replace(verb=_TWINS[used.verb])
                yield twin.within(namespace), used, count.legacy


def _is_streaming(used: UsedRequest) -> bool:
    is_pod = (used.group, used.resource) == ("", "pods")
    return is_pod and used.subresource in _STREAMING and used.verb in _TWINS


def _notes(mode: ImpersonationMode, use: ModeUsage, identities: int) -> Iterator[str]:
    if identities > 1 and len(use.actions) > 1:
        yield f"{mode}: each of these identities goes with each of these actions, as RBAC has it"
    if mode in {ImpersonationMode.ASSOCIATED_NODE, ImpersonationMode.ARBITRARY_NODE}:
        yield (
            f"{mode}: nodes will act with the group system:nodes, which legacy impersonation "
            "leaves out"
        )
    widened = [
        f"{used.verb} {describe_request(used)}"
        for used, places in use.actions.items()
        if places.is_widened
    ]
    if widened:
        shown = ", ".join(sorted(widened)[:_MOST_SHOWN])
        more = len(widened) - _MOST_SHOWN
        yield (
            f"{mode}: used in so many namespaces (--namespaces) that it is granted in all: {shown}"
            + (f", and {more} more" if more > 0 else "")
        )


async def existing_grants(cluster: Cluster, usage: UsageCollector) -> Granted:
    """Ask what everybody may already do in constrained modes, of all that legacy was used for."""
    return {
        name: await _granted(cluster, name, somebody)
        for name, somebody in usage.impersonators.items()
    }


async def _granted(
    cluster: Cluster, name: str, somebody: ImpersonatorUsage
) -> frozenset[AccessCheck]:
    needed = required_grants(name, somebody, MigrationPlan())
    checks = list(dict.fromkeys(check for one in needed for check in one.checks))
    # With its groups, which may hold what its name does not.
    user = UserInfo(name, groups=somebody.groups)
    answers = await cluster.review_all([replace(check, user=user) for check in checks])
    return frozenset(check for check, result in zip(checks, answers, strict=True) if result.allowed)
