"""Who someone is: a name, a uid, groups and extras, exactly as Kubernetes carries them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Extra = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs of key and values, sorted by key, each key once: hashable, equal when it means the same.

Iterate it as `for key, values in identity.extra`; make one with `extra_of`.
"""

NO_EXTRA: Extra = ()

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
NODES = "system:nodes"
MASTERS = "system:masters"
SERVICE_ACCOUNTS = "system:serviceaccounts"

NODE_NAME_KEY = "authentication.kubernetes.io/node-name"
"""The extra key under which a service account's token names the node its pod runs on."""

_NODE_PREFIX = "system:node:"
_SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

# A hundred groups and some. Thousands of identities may be remembered, so they must be small, and
# many short texts are not: each takes this much besides its letters.
_MOST_REMEMBERED_BYTES = 8192
_BYTES_OF_A_TEXT = 49
_LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
# The pattern of Kubernetes, written so that no character can be taken in two ways.
_LABEL = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+")
SUBDOMAIN = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+(?:\.[a-z0-9]++(?:-++[a-z0-9]++)*+)*+")


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user as the API server knows one. Group order and duplicates are kept."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = NO_EXTRA
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Once, because memories are asked about the same few identities at every request.
        object.__setattr__(self, "_hash", hash((self.name, self.uid, self.groups, self.extra)))

    def __hash__(self) -> int:
        """Return a number that equal identities share."""
        return self._hash

    @property
    def has_only_name(self) -> bool:
        """Tell whether nothing but a name is set."""
        return not (self.uid or self.groups or self.extra)

    @property
    def is_cacheable(self) -> bool:
        """Tell whether these are few bytes, so that what was decided is worth remembering."""
        texts = [self.name, self.uid, *self.groups]
        for key, values in self.extra:
            texts += (key, *values)
        return len(texts) * _BYTES_OF_A_TEXT + sum(map(len, texts)) <= _MOST_REMEMBERED_BYTES


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated client. Only the authentication room makes one.

    `found_node` is where it runs, found out by us because its token does not say. It decides which
    modes apply and is no part of who the caller is: nobody is ever shown it.
    """

    user: UserInfo
    found_node: str | None = None


class ServiceAccount(NamedTuple):
    """The two halves of a service account's username."""

    namespace: str
    name: str


def make_extra(values_by_key: Mapping[str, Sequence[str]]) -> Extra:
    """Return extras in their one canonical order, whatever order they came in."""
    return tuple((key, tuple(values_by_key[key])) for key in sorted(values_by_key))


def is_subdomain(text: str) -> bool:
    """Tell whether a text is a DNS-1123 subdomain of legal length."""
    # The length comes first: it also bounds what the pattern can cost on hostile input.
    return len(text) <= LONGEST_SUBDOMAIN and SUBDOMAIN.fullmatch(text) is not None


def node_name(username: str) -> str | None:
    """Return the node a username stands for, or None when it is not a node.

    The name must be valid: `system:node:Node_1` is an ordinary user.
    """
    if not username.startswith(_NODE_PREFIX):
        return None
    name = username[len(_NODE_PREFIX) :]
    return name if is_subdomain(name) else None


def service_account(username: str) -> ServiceAccount | None:
    """Return the service account a username stands for, or None when it is not one.

    Both halves must be valid: `system:serviceaccount:a:B` is an ordinary user.
    """
    if not username.startswith(_SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, _, name = username[len(_SERVICE_ACCOUNT_PREFIX) :].partition(":")
    if len(namespace) > _LONGEST_LABEL or _LABEL.fullmatch(namespace) is None:
        return None
    # A second colon would be left in the name, which no subdomain contains.
    return ServiceAccount(namespace, name) if is_subdomain(name) else None


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups every service account of a namespace is in."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def with_authenticated(groups: Sequence[str]) -> tuple[str, ...]:
    """Add `system:authenticated` as the API server does after a successful login.

    Neither twice, nor beside `system:unauthenticated`.
    """
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, AUTHENTICATED)


def authenticated_groups(username: str, groups: Sequence[str]) -> tuple[str, ...]:
    """Return the groups of somebody who has logged in, as the API server completes them.

    Whoever is called `system:anonymous` is not thereby authenticated.
    """
    return tuple(groups) if username == ANONYMOUS else with_authenticated(groups)


def with_implied_groups(username: str, groups: Sequence[str]) -> tuple[str, ...]:
    """Add the group that says whether an impersonated user counts as logged in.

    An explicit `system:authenticated` beside `system:anonymous` is kept, as natively.
    """
    if username != ANONYMOUS:
        return with_authenticated(groups)
    if UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, UNAUTHENTICATED)
