"""What somebody's legacy impersonations come to without it: grants that mend, and what none can."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.analysis.usage.collector import Impersonator, ModeUse, Usage
from proxy.analysis.usage.events import (
    NO_MODE,
    OWN_NODE,
    PATTERNS,
    UsedAction,
    reason_without_legacy,
)
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.impersonation.evaluation import NO_MODE as NO_MODE_REASON
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import Mode
from proxy.core.rbac.grants import (
    GrantObject,
    Need,
    Ungrantable,
    grant_objects,
    needed_checks,
)
from proxy.core.rbac.model import Subject, subject_of
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import MASTERS, Identity

Granted = Mapping[str, Collection[AccessCheck]]
"""The checks that a cluster answers with yes already, for each impersonator."""

_ANY_NODE = Identity("system:node:any")
_STREAMING = frozenset({"exec", "attach", "portforward"})
_MOST_SHOWN = 5
_TWINS = {"get": "create", "create": "get"}


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that no grant keeps working."""

    what: str
    reason: str
    remedy: str
    requests: int


@dataclass(slots=True)
class Outlook:
    """What becomes of one impersonator without legacy."""

    grants: list[GrantObject] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] | None = None
    """The checks that the cluster answers with no today; None if it was not asked."""


class Needed(NamedTuple):
    """An identity or an action that must be granted, and the checks that are about it alone."""

    need: Need
    checks: tuple[AccessCheck, ...]


def outlook_of(
    name: str, somebody: Impersonator, granted: Collection[AccessCheck] | None = None
) -> Outlook:
    """Return the grants that keep working what was used by legacy, and what they cannot keep.

    What is granted already, if that is known, is not granted again.
    """
    outlook = Outlook()
    needed = needed_by(name, somebody, outlook)
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


def needed_by(name: str, somebody: Impersonator, outlook: Outlook) -> list[Needed]:
    """Return what has to be granted; what cannot be is told to the outlook."""
    subject = subject_of(Identity(name))
    needed: list[Needed] = []
    for mode, use in somebody.modes.items():
        if mode == NO_MODE:
            outlook.broken += _hopeless(use)
        else:
            needed += _needed_in(subject, Mode(mode), use, outlook)
    return needed


def identity_text(wanted: Identity) -> str:
    """Return an identity in one line."""
    if wanted == OWN_NODE:
        return "the node it runs on"
    parts = [wanted.name]
    if wanted.uid:
        parts.append(f"uid {wanted.uid}")
    if wanted.groups:
        parts.append("groups " + ", ".join(group or '""' for group in wanted.groups))
    if wanted.extra:
        parts.append("extras " + ", ".join(key for key, _ in wanted.extra))
    return "; ".join(parts)


def action_text(action: UsedAction) -> str:
    """Return what an action is done to: a resource as kubectl names it, or a path."""
    if action.path:
        return action.path
    kind = f"{action.resource}.{action.group}" if action.group else action.resource
    return f"{kind}/{action.subresource}" if action.subresource else kind


def _hopeless(use: ModeUse) -> Iterator[Broken]:
    for wanted, count in use.identities.items():
        if count.needs_grant:
            reason = reason_without_legacy(wanted) or NO_MODE_REASON
            yield Broken(identity_text(wanted), reason, _remedy(wanted, reason), count.legacy)


def _remedy(wanted: Identity, reason: str) -> str:
    if reason == NO_MODE_REASON:
        return (
            "ask for the bare name: the groups of nodes and service accounts come by themselves, "
            "a uid and extras cannot be had"
        )
    if MASTERS in wanted.groups:
        return "act with a group of its own that is bound to what is needed"
    return ""


def _needed_in(subject: Subject, mode: Mode, use: ModeUse, outlook: Outlook) -> list[Needed]:
    """Return what must be granted in a mode: each action and each identity once."""
    identities = {wanted: count for wanted, count in use.identities.items() if count.needs_grant}
    if not identities:
        return []
    somebody = _as_target(next(iter(identities)))
    needed: list[Needed] = []
    for action, used, requests in _actions(use):
        is_pattern = action.path in PATTERNS
        need = Need(subject, mode, somebody, (action,), has_patterns=is_pattern)
        checks = _checks(need, f"{used.verb} {action_text(used)}", requests, outlook)
        if checks:
            needed.append(Needed(need, checks[:1]))
    if not needed:
        return []
    for wanted, count in identities.items():
        need = replace(needed[0].need, wanted=_as_target(wanted))
        checks = _checks(need, identity_text(wanted), count.legacy, outlook)
        if checks:
            needed.append(Needed(need, checks[1:]))
    outlook.notes += _notes(mode, use, len(identities))
    return needed


def _as_target(wanted: Identity) -> Identity:
    return _ANY_NODE if wanted == OWN_NODE else wanted


def _checks(need: Need, what: str, requests: int, outlook: Outlook) -> tuple[AccessCheck, ...]:
    """Return the check on the action, and those on the identity; nothing if no grant can help."""
    try:
        return needed_checks(need)
    except Ungrantable as error:
        outlook.broken.append(Broken(what, str(error), "", requests))
        return ()


def _actions(use: ModeUse) -> Iterator[tuple[Action, UsedAction, int]]:
    for used, places in use.actions.items():
        for namespace, count in places.counts.items():
            if not count.needs_grant:
                continue
            yield used.within(namespace), used, count.legacy
            if _is_streaming(used):
                # One client asks by the one verb, its next version by the other.
                twin = used._replace(verb=_TWINS[used.verb])
                yield twin.within(namespace), used, count.legacy


def _is_streaming(used: UsedAction) -> bool:
    is_pod = (used.group, used.resource) == ("", "pods")
    return is_pod and used.subresource in _STREAMING and used.verb in _TWINS


def _notes(mode: Mode, use: ModeUse, identities: int) -> Iterator[str]:
    if identities > 1 and len(use.actions) > 1:
        yield f"{mode}: each of these identities goes with each of these actions, as RBAC has it"
    if mode in {Mode.ASSOCIATED_NODE, Mode.ARBITRARY_NODE}:
        yield (
            f"{mode}: nodes will act with the group system:nodes, which legacy impersonation "
            "leaves out"
        )
    widened = [
        f"{used.verb} {action_text(used)}"
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


async def granted_to(cluster: Cluster, usage: Usage) -> Granted:
    """Ask what everybody may already do in constrained modes, of all that legacy was used for."""
    return {
        name: await _granted(cluster, name, somebody)
        for name, somebody in usage.impersonators.items()
    }


async def _granted(cluster: Cluster, name: str, somebody: Impersonator) -> frozenset[AccessCheck]:
    needed = needed_by(name, somebody, Outlook())
    checks = list(dict.fromkeys(check for one in needed for check in one.checks))
    # With its groups, which may hold what its name does not.
    user = Identity(name, groups=somebody.groups)
    answers = await cluster.review_all([replace(check, user=user) for check in checks])
    return frozenset(check for check, answer in zip(checks, answers, strict=True) if answer.allowed)
