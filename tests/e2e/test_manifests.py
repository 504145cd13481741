"""The manifests, put into a real cluster as they are, and the proxy run with nothing else."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.objects import token_for
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.understudy import complete_event
from tests.support.control_plane import who_am_i
from tests.support.kubectl import Kubectl

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "understudy"
FORWARDER = f"system:serviceaccount:{NAMESPACE}:understudy-forwarder"
REVIEWER = f"system:serviceaccount:{NAMESPACE}:understudy-reviewer"
PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane, plain_api_server: ApiServer) -> Kubectl:
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="manifests")
    return Kubectl(control_plane.binaries.kubectl, kubeconfig)


@pytest.fixture(scope="module")
def base(kubectl: Kubectl) -> None:
    done = kubectl.run("apply", "-k", str(MANIFESTS / "base"))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def forwarder(base: None, plain_api_server: ApiServer) -> ApiClient:
    token = token_for(plain_api_server.admin, NAMESPACE, "understudy-forwarder")
    return plain_api_server.client(token)


@pytest.fixture
def reviewer(base: None, plain_api_server: ApiServer) -> ApiClient:
    token = token_for(plain_api_server.admin, NAMESPACE, "understudy-reviewer")
    return plain_api_server.client(token)


def test_the_forwarder_may_become_somebody_and_do_nothing_itself(forwarder: ApiClient) -> None:
    node = ("Impersonate-Extra-Authentication.Kubernetes.io%2fnode-Name", "n1")
    as_bob = who_am_i(forwarder, ("Impersonate-User", "bob"), ("Impersonate-Uid", "7"), node)
    as_itself = forwarder.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")

    assert (as_bob["username"], as_bob["uid"]) == ("bob", "7")
    assert as_bob["extra"] == {"authentication.kubernetes.io/node-name": ["n1"]}
    assert as_itself.status == 403


def test_other_extras_need_the_component(
    kubectl: Kubectl, forwarder: ApiClient, tmp_path: Path
) -> None:
    blue = [("Impersonate-User", "bob"), ("Impersonate-Extra-Team", "blue")]
    without = forwarder.request("GET", "/version", headers=blue)
    overlay = tmp_path / "kustomization.yaml"
    # kubectl takes no absolute path for a root.
    up = "/".join([".."] * len(tmp_path.resolve().parts[1:]))
    overlay.write_text(
        f"resources: [{up}{MANIFESTS}/base]\ncomponents: [{up}{MANIFESTS}/components/all-extras]\n"
    )

    done = kubectl.run("apply", "-k", str(tmp_path))
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := forwarder.request("GET", "/version", headers=blue)).status != 200:
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    done = kubectl.run("delete", "clusterrolebinding", "understudy-forwarder-all-extras")

    assert without.status == 403
    assert done.returncode == 0


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
def understudy(
    base: None, control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path
) -> Iterator[ProxyProcess]:
    """A proxy that has the reviewer's token in a file, as a pod has, and no other credential."""
    kubeconfig = write_kubeconfig(
        tmp_path / "pod.yaml",
        url=plain_api_server.url,
        ca_pem=plain_api_server.ca_pem,
        credential=token_for(plain_api_server.admin, NAMESPACE, "understudy-reviewer"),
    )
    upstream = {
        "kubeconfig": str(kubeconfig),
        "reviewer": {},
        "forwarder": {"serviceAccount": f"{NAMESPACE}:understudy-forwarder"},
    }
    with ProxyProcess(control_plane, plain_api_server, settings={"upstream": upstream}) as running:
        yield running


def test_the_proxy_forwards_by_a_token_that_it_asked_for(
    understudy: ProxyProcess, control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    client = understudy.client(control_plane.clients.issue_client("alice", groups=("dev",)))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := client.request("GET", "/version")).status != 200:
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)

    itself = who_am_i(client)

    assert (itself["username"], itself["groups"]) == ("alice", ["dev", "system:authenticated"])
    event = complete_event(plain_api_server.audit_log, answer.header("Audit-Id") or "")
    assert event["user"]["username"] == FORWARDER
    assert event["impersonatedUser"]["username"] == "alice"
    # Neither too little nor too much, and not one for everything.
    while (log := understudy.log_file.read_text()).count("own rights as they should be") < 2:
        assert time.monotonic() < deadline, log
        time.sleep(0.05)
    assert f'"user":"{REVIEWER}"' in log
    assert f'"user":"{FORWARDER}"' in log
    assert "one identity" not in log
