"""The permit to forward: which identity a request carries upstream.

Forwarding takes an Admission and nothing else does, so a path that skips the decision does not
type-check. This file alone builds one; a contract test holds that.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache

from proxy.core.errors import Forbidden
from proxy.core.http.headers import check_header_safe, encoded_lines, impersonation_header_lines
from proxy.core.impersonation.evaluation import Allowed
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.policy import ExtraPolicy, LegacyAction
from proxy.core.userinfo import MASTERS, Caller, UserInfo, make_extra

_RESERVED = "original-user.kube-understudy.io"
NAME_KEY = f"{_RESERVED}/name"
UID_KEY = f"{_RESERVED}/uid"
GROUPS_KEY = f"{_RESERVED}/groups"


def is_reserved_key(key: str) -> bool:
    """Tell whether only we may write an extra key, read as the most careless hop might read it."""
    return key.lower().replace("_", "-").startswith(_RESERVED)


def has_reserved_key(user: UserInfo) -> bool:
    """Tell whether an identity claims to have somebody behind it."""
    return any(is_reserved_key(key) for key, _ in user.extra)


def with_original_user(impersonated_user: UserInfo, caller: Caller) -> UserInfo:
    """Return the acting identity with extras that name the caller; what it lacks has no key."""
    original = caller.user
    told = {NAME_KEY: (original.name,), GROUPS_KEY: original.groups, UID_KEY: (original.uid,)}
    known = {key: values for key, values in told.items() if any(values)}
    return replace(impersonated_user, extra=make_extra({**dict(impersonated_user.extra), **known}))


LEGACY_WARNING = "unrestricted impersonation is deprecated here: grant a constrained mode instead"
UID_NOT_SUPPORTED = (
    "an identity with a uid cannot be forwarded: the API server is older than 1.22, which knows "
    "no Impersonate-Uid, or does not tell its version"
)


@dataclass(frozen=True, slots=True)
class IdentityRestrictions:
    """What holds for every identity, by whatever way it was reached.

    `own_names` are the proxy's own users: a request from one would be a loop, and a request as one
    would hold the right to be anybody, or to ask for a credential that does. Nobody acts with a
    protected group. An impersonated identity names its caller to the API server if
    `tells_original_user`. `extras` is None where all of them are forwarded. Unless it `takes_uids`,
    whoever has one cannot be said in headers: without it the API server would see somebody else.
    """

    proxy_usernames: frozenset[str] = frozenset()
    protected_groups: frozenset[str] = frozenset({MASTERS})
    adds_original_user: bool = False
    extras: ExtraPolicy | None = None
    supports_uid: bool = True


DEFAULT_GUARDS = IdentityRestrictions()


@dataclass(frozen=True, slots=True)
class Permit:
    """The caller may have this request carried out as `acting`.

    `mode` is None when the caller acts as itself. `constraint` is the verb of the winning
    constrained mode, for the audit event; legacy impersonation has none. `warning` is what the
    client is to be warned of, if anything. `identity_lines` say `acting` in headers, whole,
    as they go on the wire.
    """

    caller: Caller
    user: UserInfo
    mode: ImpersonationMode | None = None
    constraint: str | None = None
    warning: str | None = None
    impersonation_headers: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Here and not where a request is written: a caller's admission is used many times.
        object.__setattr__(
            self, "impersonation_headers", encoded_lines(impersonation_header_lines(self.user))
        )


def permit_self(caller: Caller, *, restrictions: IdentityRestrictions = DEFAULT_GUARDS) -> Permit:
    """Admit a caller that asked for no other identity: it acts as itself, in full."""
    # Callers come back with every request, and how much they bring is the authenticator's to bound.
    return _remembered_admission(caller, caller.user, None, None, restrictions)


def permit_impersonation(
    caller: Caller, allowed: Allowed, *, restrictions: IdentityRestrictions = DEFAULT_GUARDS
) -> Permit:
    """Admit a caller as the identity that the verdict allows it."""
    warning = _legacy_warning(caller, allowed)
    admit = _remembered_admission if allowed.attempt.wanted_user.is_cacheable else _admit
    return admit(caller, allowed.impersonated_user, allowed.mode, warning, restrictions)


def permit_unchecked(wanted_user: UserInfo) -> Permit:
    """Permit a hop that has no credential to ask for an identity: whoever comes next decides.

    Not for a proxy that has one. Only the room `act` may use it; a contract test holds that. The
    hop does not know who is calling, so whom it asks for stands for both.
    """
    check_header_safe(wanted_user)
    return Permit(Caller(wanted_user), wanted_user)


def _admit(
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


_remembered_admission = lru_cache(maxsize=4096)(_admit)


def check_proxy_identity(
    caller: Caller, wanted_user: UserInfo | None, *, restrictions: IdentityRestrictions
) -> None:
    """Refuse the proxy's own identity on either side; for use before anything is reviewed."""
    if caller.user.name in restrictions.proxy_usernames:
        raise Forbidden("requests from the proxy's own identity are not served")
    if wanted_user is not None and wanted_user.name in restrictions.proxy_usernames:
        raise Forbidden("impersonating the proxy's own identity is not allowed")


def _legacy_warning(caller: Caller, allowed: Allowed) -> str | None:
    if allowed.mode is not ImpersonationMode.LEGACY:
        return None
    action = allowed.attempt.rules.legacy.action_for(caller.user)
    return LEGACY_WARNING if action is LegacyAction.WARN else None
