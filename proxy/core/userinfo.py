"""User info: a name, a uid, groups and extras, exactly as in Kubernetes' `user.Info`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Extra = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs of key and values, sorted by key, each key once. Hashable; equal extras compare equal.

Iterate it as `for key, values in user.extra`; build one with `make_extra`.
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

_MAX_LABEL_LENGTH = 63
MAX_SUBDOMAIN_LENGTH = 253
# The pattern of Kubernetes, written so that it never backtracks.
_LABEL = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+")
SUBDOMAIN = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+(?:\.[a-z0-9]++(?:-++[a-z0-9]++)*+)*+")


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user as kube-apiserver represents it. Group order and duplicates are kept."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = NO_EXTRA
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Computed once, because caches look up the same few users at every request.
        object.__setattr__(self, "_hash", hash((self.name, self.uid, self.groups, self.extra)))

    def __hash__(self) -> int:
        """Return the precomputed hash."""
        return self._hash

    @property
    def has_only_name(self) -> bool:
        """Return whether only the name is set."""
        return not (self.uid or self.groups or self.extra)


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated client. Only the authentication package builds one.

    `looked_up_node` is the node of the caller's pod. The proxy looks it up if the token names none.
    It decides which modes apply. It is not part of the user info and is never sent anywhere.
    """

    user: UserInfo
    looked_up_node: str | None = None


class AuthenticationResult(NamedTuple):
    """The caller of a request, and a check that an equal request of its connection can reuse."""

    caller: Caller
    recheck: Callable[[], bool] | None = None
    """Returns whether the same credential proves the same caller now, without a review.

    False in doubt. None: each request has to be authenticated.
    """


class ServiceAccount(NamedTuple):
    """The namespace and name in a service account's username."""

    namespace: str
    name: str


def make_extra(values_by_key: Mapping[str, Sequence[str]]) -> Extra:
    """Return extras in canonical order, whatever their original order."""
    return tuple((key, tuple(values_by_key[key])) for key in sorted(values_by_key))


def is_subdomain(text: str) -> bool:
    """Return whether a text is a DNS-1123 subdomain of legal length."""
    # The length is checked first: it also bounds the cost of the pattern on hostile input.
    return len(text) <= MAX_SUBDOMAIN_LENGTH and SUBDOMAIN.fullmatch(text) is not None


def node_name(username: str) -> str | None:
    """Return the node that a username denotes, or None if it denotes no node.

    The name must be valid: `system:node:Node_1` is an ordinary user.
    """
    if not username.startswith(_NODE_PREFIX):
        return None
    name = username[len(_NODE_PREFIX) :]
    return name if is_subdomain(name) else None


def service_account(username: str) -> ServiceAccount | None:
    """Return the service account that a username denotes, or None if it denotes none.

    Both halves must be valid: `system:serviceaccount:a:B` is an ordinary user.
    """
    if not username.startswith(_SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, _, name = username[len(_SERVICE_ACCOUNT_PREFIX) :].partition(":")
    if len(namespace) > _MAX_LABEL_LENGTH or _LABEL.fullmatch(namespace) is None:
        return None
    # A second colon would remain in the name, and no subdomain contains one.
    return ServiceAccount(namespace, name) if is_subdomain(name) else None


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every service account in a namespace."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def with_authenticated(groups: Sequence[str]) -> tuple[str, ...]:
    """Return groups with `system:authenticated`, as kube-apiserver adds it on authentication.

    It is added neither twice nor alongside `system:unauthenticated`.
    """
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, AUTHENTICATED)


def authenticated_groups(username: str, groups: Sequence[str]) -> tuple[str, ...]:
    """Return the groups of an authenticated user, completed as kube-apiserver does.

    A user named `system:anonymous` does not get `system:authenticated`.
    """
    return tuple(groups) if username == ANONYMOUS else with_authenticated(groups)


def with_implied_groups(username: str, groups: Sequence[str]) -> tuple[str, ...]:
    """Return groups with the one that marks an impersonated user as authenticated or not.

    An explicit `system:authenticated` of `system:anonymous` is kept, as kube-apiserver does.
    """
    if username != ANONYMOUS:
        return with_authenticated(groups)
    if UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, UNAUTHENTICATED)
