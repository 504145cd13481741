"""What our own identities must be able to do at the API server, and what they had better not.

The manifests grant exactly what is needed; a contract test holds the two together.
"""

from dataclasses import dataclass, replace

from proxy.core.impersonation.permit import GROUPS_KEY, NAME_KEY, UID_KEY
from proxy.core.userinfo import Identity, service_account

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_STANDARD_EXTRAS = tuple(
    f"authentication.kubernetes.io/{name}"
    for name in ("credential-id", "node-name", "node-uid", "pod-name", "pod-uid")
)


@dataclass(frozen=True, slots=True)
class Right:
    """One thing that may be done; without a namespace or name in every one and to all of them."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        what = f"{kind}/{self.subresource}" if self.subresource else kind
        where = f"{self.namespace}/{self.name}".strip("/")
        return f"{self.verb} {what} {where}".strip()


def _impersonate_extra(key: str) -> Right:
    return Right("impersonate", "userextras", _AUTHENTICATION, key)


def token_request(namespace: str, name: str) -> Right:
    """Return the right to ask for the token of one service account."""
    return Right("create", "serviceaccounts", "", "token", namespace, name)


def impersonating(identity: Identity) -> list[tuple[Right, list[Right]]]:
    """Return the rights that taking an identity needs: for each kind all of them, or these."""
    account = service_account(identity.name)
    if account is None:
        kind = Right("impersonate", "users")
        needed = [(kind, [replace(kind, name=identity.name)])]
    else:
        kind = Right("impersonate", "serviceaccounts")
        named = replace(kind, namespace=account.namespace, name=account.name)
        needed = [(kind, [named])]
    if identity.uid:
        kind = Right("impersonate", "uids", _AUTHENTICATION)
        needed.append((kind, [replace(kind, name=identity.uid)]))
    if identity.groups:
        kind = Right("impersonate", "groups")
        needed.append((kind, [replace(kind, name=group) for group in identity.groups]))
    for key, values in identity.extra:
        # The header encodes capitals, so the API server checks the key in its own case.
        kind = _impersonate_extra(key)
        needed.append((kind, [replace(kind, name=value) for value in values]))
    return needed


IMPERSONATING = tuple(
    Right("impersonate", resource) for resource in ("users", "groups", "serviceaccounts")
)
REVIEWING = (
    Right("create", "tokenreviews", _AUTHENTICATION),
    Right("create", "subjectaccessreviews", _AUTHORIZATION),
)
FORWARDING = (
    *IMPERSONATING,
    Right("impersonate", "uids", _AUTHENTICATION),
    *(_impersonate_extra(key) for key in _STANDARD_EXTRAS),
)
NAMING_ORIGINAL_USERS = tuple(_impersonate_extra(key) for key in (NAME_KEY, UID_KEY, GROUPS_KEY))
# Each of these alone is a way to the whole cluster, or to what is secret in it.
NOBODY_NEEDS = (
    Right("*", "*", "*"),
    Right("get", "secrets"),
    Right("list", "secrets"),
    Right("create", "pods"),
    Right("create", "serviceaccounts", "", "token"),
    Right("escalate", "clusterroles", _RBAC),
    Right("bind", "clusterroles", _RBAC),
)
