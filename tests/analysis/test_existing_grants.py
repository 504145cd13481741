import asyncio
from typing import Any

from kubernetes_asyncio.client import ApiClient, Configuration

from proxy.analysis.cluster import Cluster, Object
from proxy.analysis.existing_grants import ExistingGrant, delete_grant, find_grants
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.rbac.grants import GrantObject, GrantPurpose, rbac_objects_for
from proxy.core.rbac.model import Subject
from proxy.core.userinfo import UserInfo

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class StoredCluster(Cluster):
    """A cluster that stores these objects."""

    def __init__(self, client: ApiClient, manifests: list[GrantObject]) -> None:
        super().__init__(client)
        self.manifests: list[Any] = manifests
        self.deleted: list[str] = []

    async def items(self, path: str) -> list[Object]:
        plural = path.rpartition("/")[2]
        return [one for one in self.manifests if f"{one['kind']}s".lower() == plural]

    async def delete(self, path: str) -> None:
        self.deleted.append(path)


def check(verb: str, resource: str, *, group: str = "", namespace: str = "") -> AccessCheck:
    return AccessCheck(
        user=UserInfo("bob"),
        verb=verb,
        group=group,
        version="v1",
        resource=resource,
        namespace=namespace,
        name="alice" if resource == "users" else "",
    )


def manifests() -> list[GrantObject]:
    purpose = GrantPurpose("bob", "alice", "list pods in web", made_at="2026-11-18T09:00:00Z")
    granted = rbac_objects_for(
        Subject("User", "bob"),
        [
            check("impersonate:user-info", "users", group="authentication.k8s.io"),
            check("impersonate-on:user-info:list", "pods", namespace="web"),
        ],
        name="desk",
        purpose=purpose,
    )
    other: GrantObject = {
        "kind": "ClusterRole",
        "metadata": {"name": "desk-of-another", "labels": {}},
    }
    return [*granted, other]


def found() -> tuple[list[ExistingGrant], list[str]]:
    async def find() -> tuple[list[ExistingGrant], list[str]]:
        async with ApiClient(Configuration()) as client:
            cluster = StoredCluster(client, manifests())
            grants = await find_grants(cluster)
            for grant in grants:
                await delete_grant(cluster, grant)
            return grants, cluster.deleted

    return asyncio.run(find())


def test_labelled_objects_are_grants_with_caller_target_and_purpose() -> None:
    cluster_wide, in_namespace = found()[0]

    assert [(one.kind, one.name, one.namespace) for one in (cluster_wide, in_namespace)] == [
        ("RBAC", "desk", ""),
        ("RBAC", "desk", "web"),
    ]
    assert (in_namespace.callers, in_namespace.target) == (("bob",), "alice")
    assert (in_namespace.purpose, in_namespace.made_at) == (
        "list pods in web",
        "2026-11-18T09:00:00Z",
    )
    assert in_namespace.is_for("bob")
    assert not in_namespace.is_for("carol")


def test_bindings_are_deleted_before_roles_and_nothing_without_the_label() -> None:
    assert found()[1] == [
        f"{RBAC}/clusterrolebindings/desk",
        f"{RBAC}/clusterroles/desk",
        f"{RBAC}/namespaces/web/rolebindings/desk",
        f"{RBAC}/namespaces/web/roles/desk",
    ]


def test_grant_without_annotations_shows_what_is_known() -> None:
    grant = ExistingGrant("old", "", ("bob", "carol"))

    assert (grant.target, grant.purpose, grant.made_at) == ("-", "-", "-")
    assert not grant.is_for("bob")
