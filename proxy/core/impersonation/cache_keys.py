"""Cache keys of impersonation decisions.

A key is a digest of every field from which the checks of a decision are built. So a cache entry is
small, whatever a client sends. The `repr` of nested tuples is unambiguous, also when several are
concatenated, and far faster than any encoding written in Python.
"""

from dataclasses import fields
from hashlib import sha256
from operator import attrgetter

from proxy.core.impersonation.checks import Attempt
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo

# Derived from the types, so that a field added later is part of every key at once.
_request_fields = attrgetter(*(field.name for field in fields(RequestInfo) if field.compare))
_user_fields = attrgetter(*(field.name for field in fields(UserInfo) if field.compare))
_ANY_NODE = "system:node:*"


def request_key(attempt: Attempt) -> bytes:
    """Return the key of a whole attempt: caller, wanted user and request info."""
    request = (attempt.requires_create, *_request_fields(attempt.request_info))
    return sha256(f"{_users_text(attempt)}{request}".encode()).digest()


def user_key(attempt: Attempt) -> bytes:
    """Return the key of the identity checks alone, for any request info."""
    return sha256(_users_text(attempt).encode()).digest()


def _users_text(attempt: Attempt) -> str:
    # Keys of the associated-node mode omit the node, and the plan omits the values of the caller's
    # extras. So one entry serves all nodes of an agent. This is safe only because two things hold.
    # An attempt in this mode exists only for a caller that was matched to its own node. And the
    # authorizer reviewed all nodes (`*`), with the same values omitted.
    wanted = _user_fields(attempt.wanted_user)
    if attempt.mode is ImpersonationMode.ASSOCIATED_NODE:
        wanted = (_ANY_NODE, *wanted[1:])
    return f"{attempt.mode.value}{_user_fields(attempt.caller)}{wanted}"
