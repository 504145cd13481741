"""What a resource that does not exist was meant to be."""

import pytest

from proxy.core.rbac.resources import BUILT_IN, APIResource


@pytest.mark.parametrize(
    ("group", "name", "meant"),
    [
        ("", "pod/exec", "pods/exec"),
        ("", "exec", "pods/exec"),
        ("", "pods.exec", "pods/exec"),
        ("", "pods/execs", "pods/exec"),
        ("", "po", "pods"),
        ("", "Pod", "pods"),
        ("", "pdos", "pods"),
        ("", "deployments", "deployments.apps"),
        ("", "deploy/scale", "deployments.apps/scale"),
        ("apps", "pods", "pods"),
        ("networking.k8s.io", "ingress", "ingresses.networking.k8s.io"),
        ("networking.k8s.io", "networkpolicy", "networkpolicies.networking.k8s.io"),
        ("storage.k8s.io", "storageclass", "storageclasses.storage.k8s.io"),
    ],
)
def test_a_near_miss_is_recognized(group: str, name: str, meant: str) -> None:
    assert BUILT_IN.find(group, name) is None
    assert str(BUILT_IN.suggest(group, name)) == meant


def test_nothing_is_made_up() -> None:
    assert BUILT_IN.suggest("", "zebras") is None


def test_what_a_cluster_has_besides_is_added() -> None:
    zebras = APIResource("acme.io", "zebras", is_namespaced=True)

    extended = BUILT_IN.extended([zebras])

    assert not BUILT_IN.knows_group("acme.io")
    assert extended.knows_group("acme.io")
    assert extended.find("acme.io", "zebras") == zebras
    assert extended.suggest("acme.io", "zebra") == zebras
    assert extended.find("", "pods") == APIResource("", "pods", is_namespaced=True)
