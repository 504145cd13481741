"""Permissions that the proxy's own users need at the API server, and those they should not have.

The manifests grant exactly the needed ones; a contract test enforces that.
"""

from dataclasses import dataclass, replace

from proxy.core.impersonation.permit import GROUPS_KEY, NAME_KEY, UID_KEY
from proxy.core.userinfo import UserInfo, service_account

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_STANDARD_EXTRAS = tuple(
    f"authentication.kubernetes.io/{name}"
    for name in ("credential-id", "node-name", "node-uid", "pod-name", "pod-uid")
)


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission. Without a namespace or name it applies to all namespaces or objects."""

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


def _extra_permission(key: str) -> Permission:
    return Permission("impersonate", "userextras", _AUTHENTICATION, key)


def token_request_permission(namespace: str, name: str) -> Permission:
    """Return the permission to request a token of one service account."""
    return Permission("create", "serviceaccounts", "", "token", namespace, name)


def impersonation_permissions(user: UserInfo) -> list[tuple[Permission, list[Permission]]]:
    """Return the permissions to impersonate a user: per kind, one for all, or these."""
    account = service_account(user.name)
    if account is None:
        kind = Permission("impersonate", "users")
        needed = [(kind, [replace(kind, name=user.name)])]
    else:
        kind = Permission("impersonate", "serviceaccounts")
        named = replace(kind, namespace=account.namespace, name=account.name)
        needed = [(kind, [named])]
    if user.uid:
        kind = Permission("impersonate", "uids", _AUTHENTICATION)
        needed.append((kind, [replace(kind, name=user.uid)]))
    if user.groups:
        kind = Permission("impersonate", "groups")
        needed.append((kind, [replace(kind, name=group) for group in user.groups]))
    for key, values in user.extra:
        # The header escapes upper-case letters, so the API server checks the key in its own case.
        kind = _extra_permission(key)
        needed.append((kind, [replace(kind, name=value) for value in values]))
    return needed


IMPERSONATION_PERMISSIONS = tuple(
    Permission("impersonate", resource) for resource in ("users", "groups", "serviceaccounts")
)
REVIEW_PERMISSIONS = (
    Permission("create", "tokenreviews", _AUTHENTICATION),
    Permission("create", "subjectaccessreviews", _AUTHORIZATION),
)
FORWARDING_PERMISSIONS = (
    *IMPERSONATION_PERMISSIONS,
    Permission("impersonate", "uids", _AUTHENTICATION),
    *(_extra_permission(key) for key in _STANDARD_EXTRAS),
)
ORIGINAL_USER_PERMISSIONS = tuple(_extra_permission(key) for key in (NAME_KEY, UID_KEY, GROUPS_KEY))
# Each of these alone gives access to the whole cluster, or to its secrets.
FORBIDDEN_PERMISSIONS = (
    Permission("*", "*", "*"),
    Permission("get", "secrets"),
    Permission("list", "secrets"),
    Permission("create", "pods"),
    Permission("create", "serviceaccounts", "", "token"),
    Permission("escalate", "clusterroles", _RBAC),
    Permission("bind", "clusterroles", _RBAC),
)
