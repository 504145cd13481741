"""Warnings about an explained request: what the cluster or the proxy lacks."""

from collections.abc import Sequence
from urllib.parse import quote

from proxy.analysis.cluster import Cluster, ClusterError
from proxy.analysis.output import escape_control_characters
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.explain.explanation import Explanation
from proxy.core.selfcheck.permissions import Permission, impersonation_permissions
from proxy.core.userinfo import UserInfo, authenticated_groups, service_account_groups

DEFAULT_FORWARDER = "system:serviceaccount:understudy:understudy-forwarder"
_FORWARDER_NAMESPACE = "understudy"
_NOT_FOUND = 404
_BASE_KINDS = frozenset({"users", "serviceaccounts"})


async def cluster_warnings(
    cluster: Cluster, explanation: Explanation, forwarder: str | None
) -> tuple[str, ...]:
    """Return what would make the request fail although RBAC allows it."""
    warnings = await _missing_namespace(cluster, explanation.request.request_info.namespace)
    if explanation.request.wanted_user is not None:
        warnings += await _missing_forwarder_permissions(
            cluster, explanation.impersonated_user, forwarder
        )
    return tuple(warnings)


async def _missing_namespace(cluster: Cluster, namespace: str) -> list[str]:
    if not namespace:
        return []
    try:
        await cluster.get(f"/api/v1/namespaces/{quote(namespace, safe='')}")
    except ClusterError as error:
        if error.code == _NOT_FOUND:
            name = escape_control_characters(namespace)
            return [f"the namespace {name} does not exist, so a Role in it cannot be applied"]
        # Without permission to read namespaces, nothing is known.
    return []


async def _missing_forwarder_permissions(
    cluster: Cluster, user: UserInfo, forwarder: str | None
) -> list[str]:
    """Return the permissions that the proxy's forwarder lacks to impersonate a user.

    Without `forwarder`, its name is assumed. If that user can impersonate no user at all, the
    assumption is wrong, and nothing is known.
    """
    name = forwarder or DEFAULT_FORWARDER
    groups = () if forwarder else service_account_groups(_FORWARDER_NAMESPACE)
    account = UserInfo(name, groups=authenticated_groups(name, groups))
    missing = []
    for kind, named in impersonation_permissions(user):
        if await _has(cluster, account, [kind]):
            continue
        if await _has(cluster, account, named):
            continue
        if kind.resource in _BASE_KINDS and forwarder is None:
            return []
        missing.append(kind)
    return [_forwarder_warning(name, kind) for kind in missing]


async def _has(cluster: Cluster, account: UserInfo, permissions: Sequence[Permission]) -> bool:
    results = await cluster.review_all([_check(account, one) for one in permissions])
    return all(result.allowed for result in results)


def _check(account: UserInfo, permission: Permission) -> AccessCheck:
    return AccessCheck(
        user=account,
        verb=permission.verb,
        group=permission.group,
        version="v1",
        resource=permission.resource,
        subresource=permission.subresource,
        namespace=permission.namespace,
        name=permission.name,
    )


def _forwarder_warning(name: str, kind: Permission) -> str:
    what = f"{kind.resource}/{kind.subresource}" if kind.subresource else kind.resource
    source = "components/all-extras" if kind.subresource else "base/forwarder.yaml"
    return escape_control_characters(
        f"the proxy's forwarder {name} also needs impersonate on {what}, or the proxy responds "
        f"with 500 (manifests/{source})"
    )
