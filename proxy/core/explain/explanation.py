"""A decision as it is told to a person: values alone; `core/explaining.py` finds them out."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, assert_never

from proxy.core.authorization.access_check import AccessCheck, Answer
from proxy.core.impersonation.checks import DecisionRules
from proxy.core.impersonation.modes import Mode, pod_without_node
from proxy.core.impersonation.permit import DEFAULT_GUARDS, Guards
from proxy.core.requestinfo.request_info import Action
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    Identity,
    node_name,
    service_account,
)


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be explained. `wanted` is None for somebody who acts as themselves."""

    caller: Caller
    wanted: Identity | None
    action: Action


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else counts: how the proxy is set, and what the API server demands of streams by GET."""

    rules: DecisionRules
    guards: Guards = DEFAULT_GUARDS
    streams_need_create: bool = True
    """As API servers from 1.35 on: exec, attach and port-forward by GET need create, too."""


class Asked(NamedTuple):
    """A check and the answer to it."""

    check: AccessCheck
    answer: Answer


class Outcome(StrEnum):
    """What became of a mode."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOT_NEEDED = "not needed"
    """One before it was allowed."""
    NOT_APPLICABLE = "not applicable"


class Trial(NamedTuple):
    """One mode: whether it applies and why, what was asked, and what came of it."""

    mode: Mode
    outcome: Outcome
    reason: str
    asked: tuple[Asked, ...] = ()
    beyond: tuple[Asked, ...] = ()
    """What serving does not come to ask, and a grant must allow as well."""
    refused: str = ""
    """What no permission opens in this mode, if anything."""


class Told(NamedTuple):
    """The answer that the client gets instead of what it wants."""

    code: int
    message: str
    is_ours: bool
    """Said by the proxy; otherwise by the API server, about the target."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a request is decided, all of it.

    `missing` are the checks that a grant has to allow, all of one `grant_mode`; without any, either
    nothing is missing or no grant helps, and `hopeless` says why.
    """

    request: Request
    trials: tuple[Trial, ...]
    mode: Mode | None
    acting: Identity
    own: tuple[Asked, ...]
    """The target's own right, or the caller's who acts as themselves."""
    told: Told | None
    grant_mode: Mode | None = None
    missing: tuple[AccessCheck, ...] = ()
    hopeless: str = ""

    @property
    def may_act(self) -> bool:
        """Tell whether the proxy lets the request through."""
        return self.told is None or not self.told.is_ours

    @property
    def may_do(self) -> bool:
        """Tell whether the target itself may do it."""
        return all(answer.allowed for _, answer in self.own)

    @property
    def is_allowed(self) -> bool:
        """Tell whether the client gets what it wants."""
        return self.may_act and self.may_do


_ONLY_BARE = "only legacy impersonation takes a {kind} together with {parts}"
_SWITCHED_OFF = "constrained impersonation is switched off (impersonation.constrained)"


def why_it_applies(mode: Mode, wanted: Identity) -> str:
    """Return why a mode that applies does."""
    match mode:
        case Mode.ASSOCIATED_NODE:
            return f"{wanted.name} is the node that the caller runs on"
        case Mode.ARBITRARY_NODE:
            return f"{wanted.name} is a node"
        case Mode.SERVICE_ACCOUNT:
            return f"{wanted.name} is a service account"
        case Mode.USER_INFO:
            return f"{wanted.name} is neither a node nor a service account"
        case Mode.LEGACY:
            return "it can make anybody, and is tried last"
        case _:
            assert_never(mode)


def why_it_does_not(mode: Mode, caller: Caller, wanted: Identity, rules: DecisionRules) -> str:
    """Return why a mode that does not apply does not."""
    if mode is Mode.LEGACY:
        return "legacy impersonation is denied to this caller (impersonation.legacy)"
    if not rules.constrained:
        return _SWITCHED_OFF
    node = node_name(wanted.name)
    if mode is Mode.USER_INFO:
        kind = "node" if node is not None else "service account"
        return f"{wanted.name} is a {kind}, which has a mode of its own"
    wants_account = service_account(wanted.name) is not None
    if mode is Mode.SERVICE_ACCOUNT:
        return (
            _not_bare("service account", wanted)
            if wants_account
            else _is_no("service account", wanted)
        )
    if node is None:
        return _is_no("node", wanted)
    return _not_bare("node", wanted) if not wanted.is_bare else _elsewhere(caller, node)


def _is_no(kind: str, wanted: Identity) -> str:
    prefix = "system:node:" if kind == "node" else "system:serviceaccount:"
    if wanted.name.startswith(prefix):
        return f"{wanted.name} has the prefix of a {kind}, but what follows is no valid name of one"
    return f"{wanted.name} is not a {kind}"


def _not_bare(kind: str, wanted: Identity) -> str:
    parts = {"groups": wanted.groups, "a uid": wanted.uid, "extras": wanted.extra}
    return _ONLY_BARE.format(kind=kind, parts=" and ".join(name for name in parts if parts[name]))


def _elsewhere(caller: Caller, node: str) -> str:
    identity = caller.identity
    if service_account(identity.name) is None:
        return "the caller is not a service account, so it runs on no node"
    named = dict(identity.extra).get(NODE_NAME_KEY)
    if named is None and caller.found_node is None:
        reason = f"the caller's token names no node (its extra {NODE_NAME_KEY})"
        if pod_without_node(identity) is not None:
            reason += "; its pod's node counts if impersonation.boundPodLookup is on"
        return reason
    if named is not None and len(named) != 1:
        return f"the caller's token does not name exactly one node (its extra {NODE_NAME_KEY})"
    return f"the caller runs on {named[0] if named else caller.found_node}, not on {node}"
