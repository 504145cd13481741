"""The manifests, put into a real cluster as they are, and the proxy run with nothing else."""

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.objects import create_node, token_for
from proxy.sandbox.programs.binaries import Binaries
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.understudy import complete_event
from tests.support.control_plane import fresh_name, who_am_i
from tests.support.empty_cluster import (
    MANIFESTS,
    NAMESPACE,
    EmptyCluster,
    built,
    empty_cluster,
    write_overlay,
)
from tests.support.pinned_crds import pinned_crds
from tests.support.pod_on_disk import pod_of
from tests.support.streaming import wait_until

# The first test may have to fetch the CRDs.
pytestmark = pytest.mark.timeout(300)

FORWARDER = f"system:serviceaccount:{NAMESPACE}:understudy-forwarder"
REVIEWER = f"system:serviceaccount:{NAMESPACE}:understudy-reviewer"
COMPONENTS = sorted(one.name for one in (MANIFESTS / "components").iterdir())
OVERLAYS = sorted(one.name for one in (MANIFESTS / "overlays").iterdir())
PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[EmptyCluster]:
    with empty_cluster(binaries) as running:
        yield running


@pytest.fixture(scope="module")
def base(cluster: EmptyCluster) -> None:
    cluster.install("--kustomize", str(MANIFESTS / "base"))


@pytest.fixture(scope="module")
def crds(cluster: EmptyCluster) -> None:
    """What the Prometheus operator and cert-manager would have installed, as far as we use it."""
    files = sorted((MANIFESTS / "components").rglob("*.yaml"))
    objects = [one for file in files for one in yaml.safe_load_all(file.read_text())]
    kinds = {
        (one["apiVersion"].partition("/")[0], f"{one['kind'].lower()}s")
        for one in objects
        if one["apiVersion"].startswith(("cert-manager.io/", "monitoring.coreos.com/"))
    }
    for group, plural in kinds:
        cluster.install(f"--filename={pinned_crds() / f'{group}_{plural}.yaml'}")

    def are_established() -> bool:
        # One so new that it has no conditions yet is an error to kubectl, and nothing to wait for.
        wait = ("wait", "--for=condition=Established", "--all", "crd", "--timeout=5s")
        return cluster.kubectl.run(*wait).returncode == 0

    wait_until(are_established, "the CRDs are not established")


@pytest.fixture
def forwarder(base: None, cluster: EmptyCluster) -> ApiClient:
    return cluster.server.client(token_for(cluster.admin, NAMESPACE, "understudy-forwarder"))


@pytest.fixture
def reviewer(base: None, cluster: EmptyCluster) -> ApiClient:
    return cluster.server.client(token_for(cluster.admin, NAMESPACE, "understudy-reviewer"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_cluster_takes_an_overlay_and_finds_nothing_to_change_afterwards(
    overlay: str, cluster: EmptyCluster
) -> None:
    directory = MANIFESTS / "overlays" / overlay

    applied = cluster.install("--kustomize", str(directory))
    differences = cluster.kubectl.run("diff", "--server-side", "--kustomize", str(directory))

    assert len(applied.splitlines()) == len(built(cluster.kubectl, directory))
    assert (differences.returncode, differences.stdout) == (0, b""), differences.stderr


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_cluster_takes_the_base_with_a_component(
    component: str, cluster: EmptyCluster, base: None, crds: None, tmp_path: Path
) -> None:
    write_overlay(tmp_path, components=[component])

    applied = cluster.install("--kustomize", str(tmp_path), "--dry-run=server")

    assert len(applied.splitlines()) > len(built(cluster.kubectl, MANIFESTS / "base"))


def test_a_field_that_nobody_knows_is_refused(cluster: EmptyCluster, tmp_path: Path) -> None:
    """So the tests above say something."""
    write_overlay(
        tmp_path,
        components=[],
        more="""
patches:
- patch: '[{"op": "add", "path": "/spec/template/spec/replicaz", "value": 2}]'
  target: {kind: Deployment}
""",
    )

    done = cluster.kubectl.run(
        *("apply", "--server-side", "--validate=strict", "--kustomize", str(tmp_path))
    )

    assert done.returncode == 1
    assert b"replicaz" in done.stderr


def workloads(cluster: EmptyCluster) -> Iterator[dict[str, Any]]:
    for overlay in OVERLAYS:
        for one in built(cluster.kubectl, MANIFESTS / "overlays" / overlay):
            if "template" in one.get("spec", {}):
                yield one


def test_every_pod_is_let_in_where_only_restricted_ones_are(cluster: EmptyCluster) -> None:
    for overlay in OVERLAYS:
        cluster.install("--kustomize", str(MANIFESTS / "overlays" / overlay))
    create_node(cluster.admin, "node-1")
    tried = 0

    for workload in workloads(cluster):
        pod: dict[str, Any] = copy.deepcopy(
            dict(pod_of(workload, name=fresh_name("pod"), node="node-1"))
        )
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods?fieldValidation=Strict"
        taken = cluster.admin.request("POST", path, body=pod)
        assert taken.status == 201, taken.body
        assert taken.header("Warning") is None
        for loosened in ("runAsNonRoot", "seccompProfile"):
            careless = copy.deepcopy(pod)
            careless["metadata"]["name"] = fresh_name("pod")
            del careless["spec"]["securityContext"][loosened]
            refused = cluster.admin.request("POST", path, body=careless)
            assert refused.status == 403
            assert b"violates PodSecurity" in refused.body
        tried += 1

    assert tried == len(OVERLAYS)


def test_the_forwarder_may_become_somebody_and_do_nothing_itself(forwarder: ApiClient) -> None:
    node = ("Impersonate-Extra-Authentication.Kubernetes.io%2fnode-Name", "n1")
    as_bob = who_am_i(forwarder, ("Impersonate-User", "bob"), ("Impersonate-Uid", "7"), node)
    as_itself = forwarder.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")

    assert (as_bob["username"], as_bob["uid"]) == ("bob", "7")
    assert as_bob["extra"] == {"authentication.kubernetes.io/node-name": ["n1"]}
    assert as_itself.status == 403


def test_other_extras_need_the_component(
    cluster: EmptyCluster, forwarder: ApiClient, tmp_path: Path
) -> None:
    blue = [("Impersonate-User", "bob"), ("Impersonate-Extra-Team", "blue")]
    without = forwarder.request("GET", "/version", headers=blue)
    write_overlay(tmp_path, components=["all-extras"])

    cluster.install("--kustomize", str(tmp_path))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (response := forwarder.request("GET", "/version", headers=blue)).status != 200:
        assert time.monotonic() < deadline, response
        time.sleep(0.05)
    cluster.run("delete", "clusterrolebinding", "understudy-forwarder-all-extras")

    assert without.status == 403


def test_the_reviewer_becomes_nobody_and_asks_for_one_token_only(reviewer: ApiClient) -> None:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"

    statuses = {
        name: reviewer.request("POST", f"{accounts}/{name}/token", body=request).status
        for name in ("understudy-forwarder", "understudy-reviewer", "default")
    }
    as_bob = reviewer.request("GET", "/version", headers=[("Impersonate-User", "bob")])

    assert statuses == {"understudy-forwarder": 201, "understudy-reviewer": 403, "default": 403}
    assert as_bob.status == 403


@pytest.fixture
def understudy(base: None, cluster: EmptyCluster, tmp_path: Path) -> Iterator[ProxyProcess]:
    """A proxy that has the reviewer's token in a file, as a pod has, and no other credential."""
    kubeconfig = write_kubeconfig(
        tmp_path / "pod.yaml",
        url=cluster.server.url,
        ca_pem=cluster.server.ca_pem,
        credential=token_for(cluster.admin, NAMESPACE, "understudy-reviewer"),
    )
    upstream = {
        "kubeconfig": str(kubeconfig),
        "reviewer": {},
        "forwarder": {"serviceAccount": f"{NAMESPACE}:understudy-forwarder"},
    }
    settings = {"upstream": upstream}
    with ProxyProcess(cluster.control_plane, cluster.server, settings=settings) as running:
        yield running


def test_the_proxy_forwards_by_a_token_that_it_asked_for(
    understudy: ProxyProcess, cluster: EmptyCluster
) -> None:
    client = understudy.client(cluster.control_plane.clients.issue_client("alice", groups=("dev",)))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (response := client.request("GET", "/version")).status != 200:
        assert time.monotonic() < deadline, response
        time.sleep(0.05)

    itself = who_am_i(client)

    assert (itself["username"], itself["groups"]) == ("alice", ["dev", "system:authenticated"])
    event = complete_event(cluster.server.audit_log, response.header("Audit-Id") or "")
    assert event["user"]["username"] == FORWARDER
    assert event["impersonatedUser"]["username"] == "alice"
    # Neither too little nor too much, and not one for everything.
    while (log := understudy.log_file.read_text()).count("proxy permissions verified") < 2:
        assert time.monotonic() < deadline, log
        time.sleep(0.05)
    assert f'"user":"{REVIEWER}"' in log
    assert f'"user":"{FORWARDER}"' in log
    assert "one identity" not in log
