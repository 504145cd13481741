"""Explanations of decisions: plain values, which `explainer.py` computes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, assert_never

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.impersonation.modes import ImpersonationMode, pod_bound_without_node
from proxy.core.impersonation.permit import DEFAULT_RESTRICTIONS, IdentityRestrictions
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    node_name,
    service_account,
)


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A request to explain. `wanted_user` is None without impersonation."""

    caller: Caller
    wanted_user: UserInfo | None
    request_info: RequestInfo


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The proxy's configuration, and what the API server requires for streams by GET."""

    rules: ImpersonationRules
    restrictions: IdentityRestrictions = DEFAULT_RESTRICTIONS
    streams_need_create: bool = True
    """Since 1.35, kube-apiserver requires create for exec, attach and port-forward by GET."""


class CheckOutcome(NamedTuple):
    """An access check and its result."""

    check: AccessCheck
    result: CheckResult


class ModeOutcome(StrEnum):
    """Outcome of a mode."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NOT_NEEDED = "not needed"
    """An earlier mode was allowed."""
    NOT_APPLICABLE = "not applicable"


class ModeAttempt(NamedTuple):
    """One mode: whether and why it applies, its checks, and its outcome."""

    mode: ImpersonationMode
    outcome: ModeOutcome
    reason: str
    checks: tuple[CheckOutcome, ...] = ()
    unreached_checks: tuple[CheckOutcome, ...] = ()
    """Checks that serving does not reach, and that a grant must allow as well."""
    forbidden_reason: str = ""
    """Why no permission can allow the request in this mode, or empty."""


class ClientResponse(NamedTuple):
    """The error response to the client."""

    code: int
    message: str
    is_from_proxy: bool
    """Sent by the proxy. Otherwise the API server sends it, about the target."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Complete explanation of a decision.

    `missing` are the checks that a grant has to allow, all of one `grant_mode`. If it is empty,
    either nothing is missing, or no grant helps and `unsatisfiable_reason` says why.
    """

    request: ExplainRequest
    attempts: tuple[ModeAttempt, ...]
    mode: ImpersonationMode | None
    impersonated_user: UserInfo
    target_check: tuple[CheckOutcome, ...]
    """Checks of the target's own permission, or of the caller's without impersonation."""
    response: ClientResponse | None
    grant_mode: ImpersonationMode | None = None
    missing: tuple[AccessCheck, ...] = ()
    unsatisfiable_reason: str = ""

    @property
    def is_impersonation_allowed(self) -> bool:
        """Return whether the proxy forwards the request."""
        return self.response is None or not self.response.is_from_proxy

    @property
    def is_target_allowed(self) -> bool:
        """Return whether the target itself has permission for the request."""
        return all(result.allowed for _, result in self.target_check)

    @property
    def is_allowed(self) -> bool:
        """Return whether the request succeeds."""
        return self.is_impersonation_allowed and self.is_target_allowed


_ONLY_BARE = "only legacy impersonation accepts a {kind} together with {parts}"
_SWITCHED_OFF = "constrained impersonation is switched off (impersonation.constrained)"


def applicable_reason(mode: ImpersonationMode, wanted_user: UserInfo) -> str:
    """Return why an applicable mode applies."""
    match mode:
        case ImpersonationMode.ASSOCIATED_NODE:
            return f"{wanted_user.name} is the node that the caller runs on"
        case ImpersonationMode.ARBITRARY_NODE:
            return f"{wanted_user.name} is a node"
        case ImpersonationMode.SERVICE_ACCOUNT:
            return f"{wanted_user.name} is a service account"
        case ImpersonationMode.USER_INFO:
            return f"{wanted_user.name} is neither a node nor a service account"
        case ImpersonationMode.LEGACY:
            return "it applies to any user, and is tried last"
        case _:
            assert_never(mode)


def inapplicable_reason(
    mode: ImpersonationMode, caller: Caller, wanted_user: UserInfo, rules: ImpersonationRules
) -> str:
    """Return why an inapplicable mode does not apply."""
    if mode is ImpersonationMode.LEGACY:
        return "legacy impersonation is denied to this caller (impersonation.legacy)"
    if not rules.constrained:
        return _SWITCHED_OFF
    node = node_name(wanted_user.name)
    if mode is ImpersonationMode.USER_INFO:
        kind = "node" if node is not None else "service account"
        return f"{wanted_user.name} is a {kind}, which has its own mode"
    wants_account = service_account(wanted_user.name) is not None
    if mode is ImpersonationMode.SERVICE_ACCOUNT:
        return (
            _has_more_than_name("service account", wanted_user)
            if wants_account
            else _not_a("service account", wanted_user)
        )
    if node is None:
        return _not_a("node", wanted_user)
    return (
        _has_more_than_name("node", wanted_user)
        if not wanted_user.has_only_name
        else _other_node(caller, node)
    )


def _not_a(kind: str, wanted_user: UserInfo) -> str:
    prefix = "system:node:" if kind == "node" else "system:serviceaccount:"
    if wanted_user.name.startswith(prefix):
        return f"{wanted_user.name} has the prefix of a {kind}, but the rest is not a valid name"
    return f"{wanted_user.name} is not a {kind}"


def _has_more_than_name(kind: str, wanted_user: UserInfo) -> str:
    parts = {"groups": wanted_user.groups, "a uid": wanted_user.uid, "extras": wanted_user.extra}
    return _ONLY_BARE.format(kind=kind, parts=" and ".join(name for name in parts if parts[name]))


def _other_node(caller: Caller, node: str) -> str:
    user = caller.user
    if service_account(user.name) is None:
        return "the caller is not a service account, so it runs on no node"
    named = dict(user.extra).get(NODE_NAME_KEY)
    if named is None and caller.looked_up_node is None:
        reason = f"the caller's token names no node (its extra {NODE_NAME_KEY})"
        if pod_bound_without_node(user) is not None:
            reason += "; its pod's node counts if impersonation.boundPodLookup is on"
        return reason
    if named is not None and len(named) != 1:
        return f"the caller's token does not name exactly one node (its extra {NODE_NAME_KEY})"
    return f"the caller runs on {named[0] if named else caller.looked_up_node}, not on {node}"
