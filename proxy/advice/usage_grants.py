"""What somebody's legacy impersonations come to without it: grants that mend, and what none can."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from proxy.advice.usage import Impersonator, ModeUse
from proxy.advice.usage_events import (
    NO_MODE,
    OWN_NODE,
    PATTERNS,
    UsedAction,
    reason_without_legacy,
)
from proxy.core.action import Action
from proxy.core.grants import GrantObject, Need, Ungrantable, grant_objects, needed_checks
from proxy.core.hopeless import NO_MODE as NO_MODE_REASON
from proxy.core.identity import MASTERS, Identity
from proxy.core.modes import Mode
from proxy.core.rbac import Subject, subject_of

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


def outlook_of(name: str, somebody: Impersonator) -> Outlook:
    """Return the grants that keep working what was used by legacy, and what they cannot keep."""
    outlook = Outlook()
    subject = subject_of(Identity(name))
    needs: list[Need] = []
    for mode, use in somebody.modes.items():
        if mode == NO_MODE:
            outlook.broken += _hopeless(use)
        else:
            needs += _needs(subject, Mode(mode), use, outlook)
    outlook.grants = grant_objects(needs)
    if somebody.beyond:
        outlook.notes.append(
            f"{somebody.beyond} requests named more than is kept apart (--most): they are counted, "
            "and not in the grants"
        )
    return outlook


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


def _needs(subject: Subject, mode: Mode, use: ModeUse, outlook: Outlook) -> list[Need]:
    """Return what must be granted in a mode: each action and each identity once."""
    identities = {wanted: count for wanted, count in use.identities.items() if count.needs_grant}
    if not identities:
        return []
    somebody = _as_target(next(iter(identities)))
    needs: list[Need] = []
    for action, used, requests in _actions(use):
        is_pattern = action.path in PATTERNS
        need = Need(subject, mode, somebody, (action,), has_patterns=is_pattern)
        if _is_grantable(need, f"{used.verb} {action_text(used)}", requests, outlook):
            needs.append(need)
    if not needs:
        return []
    for wanted, count in identities.items():
        need = replace(needs[0], wanted=_as_target(wanted))
        if _is_grantable(need, identity_text(wanted), count.legacy, outlook):
            needs.append(need)
    outlook.notes += _notes(mode, use, len(identities))
    return needs


def _as_target(wanted: Identity) -> Identity:
    return _ANY_NODE if wanted == OWN_NODE else wanted


def _is_grantable(need: Need, what: str, requests: int, outlook: Outlook) -> bool:
    try:
        needed_checks(need)
    except Ungrantable as error:
        outlook.broken.append(Broken(what, str(error), "", requests))
        return False
    return True


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
