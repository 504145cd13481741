"""Why a mode applies to a request or does not, in words for people.

Whether it does is decided in `core/modes.py` and nowhere else; here it is only told.
"""

from typing import assert_never

from proxy.core.bound_pod import pod_without_node
from proxy.core.identity import NODE_NAME_KEY, Caller, Identity, node_name, service_account
from proxy.core.modes import Mode
from proxy.core.plan import DecisionRules

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
