"""The five impersonation modes: when each applies, its verbs, and the impersonated user."""

from enum import StrEnum
from typing import NamedTuple

from proxy.core.userinfo import (
    NODE_NAME_KEY,
    NODES,
    Caller,
    UserInfo,
    is_subdomain,
    node_name,
    service_account,
    service_account_groups,
    with_implied_groups,
)

_POD_NAME_KEY = "authentication.kubernetes.io/pod-name"
_POD_UID_KEY = "authentication.kubernetes.io/pod-uid"


class BoundPod(NamedTuple):
    """A pod and its service account. The uid distinguishes it from other pods of its name."""

    namespace: str
    account: str
    name: str
    uid: str


def pod_bound_without_node(caller: UserInfo) -> BoundPod | None:
    """Return the pod of a caller whose token names a pod but no node; None for all others.

    API servers before 1.30 name no node. If the token names one, even a malformed one, it is
    authoritative and the pod is not looked up.
    """
    account = service_account(caller.name)
    extra = dict(caller.extra)
    if account is None or NODE_NAME_KEY in extra:
        return None
    names, uids = extra.get(_POD_NAME_KEY, ()), extra.get(_POD_UID_KEY, ())
    # Exactly one of each: a caller that claims two pods is not known to run in either.
    if len(names) != 1 or len(uids) != 1 or not uids[0] or not is_subdomain(names[0]):
        return None
    return BoundPod(account.namespace, account.name, names[0], uids[0])


class ImpersonationMode(StrEnum):
    """An impersonation mode, in order of evaluation."""

    ASSOCIATED_NODE = "associated-node"
    ARBITRARY_NODE = "arbitrary-node"
    SERVICE_ACCOUNT = "serviceaccount"
    USER_INFO = "user-info"
    LEGACY = "legacy"

    # Modes are dictionary keys at every request, and the hash of Enum is slower.
    __hash__ = str.__hash__

    @property
    def identity_verb(self) -> str:
        """The verb of every check on the wanted user."""
        return _IDENTITY_VERBS[self]

    @property
    def constraint(self) -> str | None:
        """The impersonation constraint that the audit event records for this mode."""
        return None if self is ImpersonationMode.LEGACY else _IDENTITY_VERBS[self]

    def action_verb(self, verb: str) -> str:
        """Return the verb of the check on the impersonated request."""
        return f"impersonate-on:{self.value}:{verb}"


_IDENTITY_VERBS = {
    mode: "impersonate" if mode is ImpersonationMode.LEGACY else f"impersonate:{mode.value}"
    for mode in ImpersonationMode
}


def applicable_modes(caller: Caller, wanted_user: UserInfo) -> tuple[ImpersonationMode, ...]:
    """Return the modes in which this caller can impersonate the wanted user, in order.

    Only legacy can impersonate a node or a service account with groups, a uid or extras.
    """
    node = node_name(wanted_user.name)
    if node is None and service_account(wanted_user.name) is None:
        return (ImpersonationMode.USER_INFO, ImpersonationMode.LEGACY)
    if not wanted_user.has_only_name:
        return (ImpersonationMode.LEGACY,)
    if node is None:
        return (ImpersonationMode.SERVICE_ACCOUNT, ImpersonationMode.LEGACY)
    if _is_associated_with_node(caller, node):
        return (
            ImpersonationMode.ASSOCIATED_NODE,
            ImpersonationMode.ARBITRARY_NODE,
            ImpersonationMode.LEGACY,
        )
    return (ImpersonationMode.ARBITRARY_NODE, ImpersonationMode.LEGACY)


def impersonated_user(mode: ImpersonationMode, wanted_user: UserInfo) -> UserInfo:
    """Return the user that results from an allowed impersonation, implied groups included."""
    groups = wanted_user.groups
    account = service_account(wanted_user.name)
    if account is not None and not groups:
        groups = service_account_groups(account.namespace)
    elif mode in {ImpersonationMode.ASSOCIATED_NODE, ImpersonationMode.ARBITRARY_NODE}:
        groups = (NODES,)
    return UserInfo(
        wanted_user.name,
        wanted_user.uid,
        with_implied_groups(wanted_user.name, groups),
        wanted_user.extra,
    )


def _is_associated_with_node(caller: Caller, node: str) -> bool:
    if service_account(caller.user.name) is None:
        return False
    named = [values for key, values in caller.user.extra if key == NODE_NAME_KEY]
    if named:
        # Exactly one value: a caller that claims two nodes is not known to run on either.
        return named == [(node,)]
    # The token names no node, so the node of its pod counts, if that was looked up.
    return caller.looked_up_node == node
