"""What makes two decisions the same.

A key is a digest of every field that the checks behind a decision were built from, so that what a
cache holds is small whatever a client sends. The text of nested tuples is unambiguous, also when
one follows another, and far faster to get than any encoding written here.
"""

from dataclasses import fields
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import NamedTuple

from proxy.core.impersonation.checks import Attempt
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import IdentityRestrictions, Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo

# By the definition of the types: a field that is added later is part of every key at once.
_action_fields = attrgetter(*(field.name for field in fields(RequestInfo) if field.compare))
_identity_fields = attrgetter(*(field.name for field in fields(UserInfo) if field.compare))
_ANY_NODE = "system:node:*"


def request_key(attempt: Attempt) -> bytes:
    """Return the key of a whole attempt: these two identities, and this very action."""
    action = (attempt.requires_create, *_action_fields(attempt.request_info))
    return sha256(f"{_identities(attempt)}{action}".encode()).digest()


def user_key(attempt: Attempt) -> bytes:
    """Return the key of the identity part alone, whatever the action."""
    return sha256(_identities(attempt).encode()).digest()


def _identities(attempt: Attempt) -> str:
    # All nodes of one agent share their entries: the node is left out here, and the values of the
    # caller's extras were left out by the plan. That is only safe because an attempt in this mode
    # exists only for a caller that was matched to its own node, and because the authorizer was
    # asked about every node (`*`) with the same values left out.
    wanted = _identity_fields(attempt.wanted_user)
    if attempt.mode is ImpersonationMode.ASSOCIATED_NODE:
        wanted = (_ANY_NODE, *wanted[1:])
    return f"{attempt.mode.value}{_caller_text(attempt.caller)}{wanted}"


# A caller comes back with every request, and its size is the authenticator's to bound.
@lru_cache(maxsize=4096)
def _caller_text(caller: UserInfo) -> str:
    return repr(_identity_fields(caller))


class ReusableDecision(NamedTuple):
    """A decision that comes out the same for an equal request, as long as memory holds its key.

    It permits nothing by itself. The key of one who acts as itself is empty: nothing was asked.
    """

    key: bytes
    restrictions: IdentityRestrictions
    permit: Permit
