"""The permit to forward a request, which names the user of the upstream request.

Forwarding requires a Permit, so a path that skips the decision does not type-check. Only this file
builds one; a contract test enforces that.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from proxy.core.errors import Forbidden
from proxy.core.http.headers import (
    check_header_safe,
    encode_header_lines,
    impersonation_header_lines,
)
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import ExtraPolicy, LegacyAction
from proxy.core.userinfo import MASTERS, Caller, UserInfo, make_extra

_RESERVED_PREFIX = "original-user.kube-understudy.io"
NAME_KEY = f"{_RESERVED_PREFIX}/name"
UID_KEY = f"{_RESERVED_PREFIX}/uid"
GROUPS_KEY = f"{_RESERVED_PREFIX}/groups"


def is_reserved_key(key: str) -> bool:
    """Return whether only the proxy may set a key, as the most lenient hop might parse it."""
    return key.lower().replace("_", "-").startswith(_RESERVED_PREFIX)


def has_reserved_key(user: UserInfo) -> bool:
    """Return whether a user has an extra that names an original user."""
    return any(is_reserved_key(key) for key, _ in user.extra)


def with_original_user(impersonated_user: UserInfo, caller: Caller) -> UserInfo:
    """Return the impersonated user with extras that name the caller; empty parts get no key."""
    original = caller.user
    parts = {NAME_KEY: (original.name,), GROUPS_KEY: original.groups, UID_KEY: (original.uid,)}
    original_extra = {key: values for key, values in parts.items() if any(values)}
    extra = make_extra({**dict(impersonated_user.extra), **original_extra})
    return replace(impersonated_user, extra=extra)


LEGACY_WARNING = "unrestricted impersonation is deprecated here: grant a constrained mode instead"
UID_NOT_SUPPORTED = (
    "an identity with a uid cannot be forwarded: the API server is older than 1.22 and does not "
    "support Impersonate-Uid, or does not report its version"
)


@dataclass(frozen=True, slots=True)
class IdentityRestrictions:
    """Restrictions on every forwarded user, whether impersonated or not.

    `proxy_usernames` are the proxy's own users. A request from one would be a loop. A request as
    one could impersonate any user, or request a credential that can. No request is forwarded with
    a protected group. With `adds_original_user`, extras name the caller of an impersonated request
    to the API server. `extras` is None if all extras are forwarded. Without `supports_uid`, a user
    with a uid is rejected: the API server would ignore the uid and see a different user.
    """

    proxy_usernames: frozenset[str] = frozenset()
    protected_groups: frozenset[str] = frozenset({MASTERS})
    adds_original_user: bool = False
    extras: ExtraPolicy | None = None
    supports_uid: bool = True


DEFAULT_RESTRICTIONS = IdentityRestrictions()


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to forward a request of the caller as `user`.

    `mode` is None without impersonation. `constraint` is the verb of the allowed constrained mode,
    for the audit event; legacy impersonation has none. `warning` is the text of the Warning header
    for the client, if any. `impersonation_headers` are all header lines that name `user`, encoded
    for the wire.
    """

    caller: Caller
    user: UserInfo
    mode: ImpersonationMode | None = None
    constraint: str | None = None
    warning: str | None = None
    impersonation_headers: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Encoded here and not per request, because a permit is used for many requests.
        object.__setattr__(
            self,
            "impersonation_headers",
            encode_header_lines(impersonation_header_lines(self.user)),
        )


class AuthorizationResult(NamedTuple):
    """The permit of a request, and a check that an equal request can reuse."""

    permit: Permit
    recheck: Callable[[], bool] | None = None
    """Returns whether a new decision for an equal request would give the same permit.

    Without I/O, and False in doubt. None: each request has to be authorized.
    """


def permit_self(
    caller: Caller, *, restrictions: IdentityRestrictions = DEFAULT_RESTRICTIONS
) -> Permit:
    """Return the permit of a caller that impersonates no other user, with its full user info."""
    return _build_permit(caller, caller.user, None, None, restrictions)


def permit_impersonation(
    caller: Caller, allowed: Allowed, *, restrictions: IdentityRestrictions = DEFAULT_RESTRICTIONS
) -> Permit:
    """Return the permit of a caller for the impersonated user of an allowed decision."""
    warning = _legacy_warning(caller, allowed)
    return _build_permit(caller, allowed.impersonated_user, allowed.mode, warning, restrictions)


def permit_unchecked(wanted_user: UserInfo) -> Permit:
    """Return a permit without any check, for the sidecar, which has no privileged credential.

    The next hop decides. Never use it in a proxy that has such a credential. Only the package
    `sidecar` may use it; a contract test enforces that. The sidecar does not know its caller, so
    the wanted user stands for both.
    """
    check_header_safe(wanted_user)
    return Permit(Caller(wanted_user), wanted_user)


def _build_permit(
    caller: Caller,
    impersonated_user: UserInfo,
    mode: ImpersonationMode | None,
    warning: str | None,
    restrictions: IdentityRestrictions,
) -> Permit:
    check_proxy_identity(caller, impersonated_user, restrictions=restrictions)
    if has_reserved_key(impersonated_user):
        raise Forbidden("an identity that claims an original user cannot be forwarded")
    if restrictions.extras is not None:
        impersonated_user = restrictions.extras.apply(impersonated_user)
    if mode is not None and restrictions.adds_original_user:
        impersonated_user = with_original_user(impersonated_user, caller)
    check_header_safe(impersonated_user)
    if impersonated_user.uid and not restrictions.supports_uid:
        raise Forbidden(UID_NOT_SUPPORTED)
    for group in impersonated_user.groups:
        if group in restrictions.protected_groups:
            raise Forbidden(f"acting with the protected group {group} is not allowed")
    constraint = None if mode is None else mode.constraint
    return Permit(caller, impersonated_user, mode, constraint=constraint, warning=warning)


def check_proxy_identity(
    caller: Caller, wanted_user: UserInfo | None, *, restrictions: IdentityRestrictions
) -> None:
    """Reject the proxy's own users as caller and as wanted user, before any review is sent."""
    if caller.user.name in restrictions.proxy_usernames:
        raise Forbidden("requests from the proxy's own identity are not served")
    if wanted_user is not None and wanted_user.name in restrictions.proxy_usernames:
        raise Forbidden("impersonating the proxy's own identity is not allowed")


def _legacy_warning(caller: Caller, allowed: Allowed) -> str | None:
    if allowed.mode is not ImpersonationMode.LEGACY:
        return None
    action = allowed.attempt.rules.legacy.action_for(caller.user)
    return LEGACY_WARNING if action is LegacyAction.WARN else None
