"""Who is behind an impersonation: extras in which we tell the API server the caller.

Its audit log and its authorizers see our own name and the acting identity, not the caller. With
`upstream.originalUserExtra` the acting identity carries the caller in extras. Whoever could write
such an extra could blame somebody else, so the keys are reserved, with the option on or off.
"""

from dataclasses import replace

from proxy.core.identity import Caller, Identity, extra_of

_RESERVED = "original-user.kube-understudy.io"
NAME_KEY = f"{_RESERVED}/name"
UID_KEY = f"{_RESERVED}/uid"
GROUPS_KEY = f"{_RESERVED}/groups"


def is_reserved_key(key: str) -> bool:
    """Tell whether only we may write an extra key, read as the most careless hop might read it."""
    return key.lower().replace("_", "-").startswith(_RESERVED)


def has_reserved_key(identity: Identity) -> bool:
    """Tell whether an identity claims to have somebody behind it."""
    return any(is_reserved_key(key) for key, _ in identity.extra)


def with_original_user(acting: Identity, caller: Caller) -> Identity:
    """Return the acting identity with extras that name the caller; what it lacks has no key."""
    original = caller.identity
    told = {NAME_KEY: (original.name,), GROUPS_KEY: original.groups, UID_KEY: (original.uid,)}
    known = {key: values for key, values in told.items() if any(values)}
    return replace(acting, extra=extra_of({**dict(acting.extra), **known}))
