import pytest

from proxy.sandbox.objects import path_of


@pytest.mark.parametrize(
    ("version", "kind", "metadata", "path"),
    [
        ("v1", "Namespace", {"name": "a"}, "/api/v1/namespaces/a"),
        ("v1", "Pod", {"namespace": "a", "name": "b"}, "/api/v1/namespaces/a/pods/b"),
        (
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            {"name": "system:x/y"},
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Ax%2Fy",
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {"namespace": "a", "name": "b"},
            "/apis/networking.k8s.io/v1/namespaces/a/networkpolicies/b",
        ),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            {"name": "b"},
            "/apis/scheduling.k8s.io/v1/priorityclasses/b",
        ),
    ],
    ids=["core", "namespaced", "group", "y", "s"],
)
def test_a_manifest_says_where_its_object_is(
    version: str, kind: str, metadata: dict[str, str], path: str
) -> None:
    manifest = {"apiVersion": version, "kind": kind, "metadata": metadata}

    assert path_of(manifest) == path
