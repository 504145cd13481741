"""Creation of objects and tokens in a cluster without controllers.

Each function takes a client with the necessary permissions, usually `server.admin`.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.identities import BearerToken

FIELD_MANAGER = "fieldManager=understudy&force=true"
APPLY = [("Content-Type", "application/apply-patch+yaml")]
MERGE = [("Content-Type", "application/merge-patch+json")]
TOKEN_SECONDS = 3600


def apply(client: ApiClient, manifest: Manifest) -> Any:
    """Create or update an object by server-side apply, and return it."""
    target = f"{path_of(manifest)}?{FIELD_MANAGER}"
    return client.call("PATCH", target, headers=APPLY, body=manifest)


def set_status(client: ApiClient, manifest: Manifest, status: Manifest) -> None:
    """Merge into the status of an existing object, as its controller does."""
    client.call("PATCH", f"{path_of(manifest)}/status", headers=MERGE, body={"status": status})


def path_of(manifest: Manifest) -> str:
    """Return the path of the object a manifest describes."""
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{namespace}/{_plural(manifest['kind'])}/{quote(metadata['name'], safe='')}"


def create_namespace(client: ApiClient, name: str) -> None:
    """Create a namespace and its default ServiceAccount, which a controller usually creates."""
    apply(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    create_service_account(client, name, "default")


def create_service_account(client: ApiClient, namespace: str, name: str) -> None:
    """Create a ServiceAccount."""
    metadata = {"namespace": namespace, "name": name}
    apply(client, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def create_node(client: ApiClient, name: str, *, kubelet_port: int | None = None) -> None:
    """Register a ready Node at 127.0.0.1, optionally with a kubelet port."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    status: dict[str, object] = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    if kubelet_port is not None:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": kubelet_port}}
    apply(client, node)
    set_status(client, node, status)


def create_pod(
    client: ApiClient,
    namespace: str,
    name: str,
    *,
    node: str,
    service_account: str = "default",
    labels: Mapping[str, str] | None = None,
) -> Any:
    """Create a Pod with the phase Running on a Node, and return it."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": dict(labels or {})},
        "spec": {
            "nodeName": node,
            "serviceAccountName": service_account,
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    created = apply(client, pod)
    set_status(client, pod, {"phase": "Running"})
    return created


def token_for(
    client: ApiClient,
    namespace: str,
    service_account: str,
    *,
    pod: Manifest | None = None,
    audiences: Sequence[str] = (),
) -> BearerToken:
    """Request a service account token, optionally bound to a Pod that `create_pod` returned.

    A token bound to a Pod on an existing Node carries the node's name and uid as extras.
    """
    specification: dict[str, object] = {"expirationSeconds": TOKEN_SECONDS}
    if audiences:
        specification["audiences"] = list(audiences)
    if pod is not None:
        specification["boundObjectRef"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
        }
    response = client.call(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
        body={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": specification,
        },
    )
    return BearerToken(response["status"]["token"])


def grant(client: ApiClient, name: str, *, rules: Sequence[Manifest], to: Manifest) -> None:
    """Bind a subject to a ClusterRole with these rules; role and binding have the same name."""
    subject = dict(to)
    if subject["kind"] != "ServiceAccount":
        subject.setdefault("apiGroup", "rbac.authorization.k8s.io")
    version = "rbac.authorization.k8s.io/v1"
    metadata = {"name": name}
    apply(
        client,
        {"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)},
    )
    apply(
        client,
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **metadata},
        },
    )


def _plural(kind: str) -> str:
    """Return the resource name of a built-in kind, by the rules of English plurals."""
    singular = kind.lower()
    if singular.endswith("y"):
        return f"{singular[:-1]}ies"
    return f"{singular}es" if singular.endswith("s") else f"{singular}s"
