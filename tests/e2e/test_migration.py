"""From legacy impersonation to constrained modes by what an audit log tells: nothing breaks."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import Credential, write_kubeconfig
from proxy.sandbox.objects import apply
from proxy.sandbox.programs.binaries import Binaries
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.support.impersonation import (
    AUTHENTICATION,
    Caller,
    Header,
    Rights,
    as_node,
    as_user,
    is_refused_impersonation,
    may,
    may_impersonate,
    poll,
)
from tests.support.kubectl import Kubectl

pytestmark = pytest.mark.timeout(120)  # kubectl and Python are started several times
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
EVERYBODY = (
    *(may_impersonate(resource) for resource in ("users", "groups", "serviceaccounts")),
    may_impersonate("uids"),
    may_impersonate("userextras/example.com/reason"),
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A request that somebody makes as somebody else."""

    caller: Caller
    headers: tuple[Header, ...]
    method: str
    target: str
    body: Manifest | None = None


@dataclass(frozen=True, slots=True)
class Door:
    """Where requests are made by legacy impersonation, and the log that tells of them."""

    client: Callable[[Credential], ApiClient]
    audit_log: Path

    def ask(self, wish: Wish) -> int:
        client = self.client(wish.caller.credential)
        response = client.request(
            wish.method, wish.target, headers=list(wish.headers), body=wish.body
        )
        return response.status


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("understudy")
    with running_understudy(control_plane, plain_api_server, directory) as running:
        yield running


@pytest.fixture(params=["the proxy's log", "the cluster's log"])
def door(
    request: pytest.FixtureRequest, understudy: Understudy, plain_api_server: ApiServer
) -> Iterator[Door]:
    understudy.reload(legacy="allow")
    if request.param == "the proxy's log":
        yield Door(understudy.client, understudy.audit_log)
    else:
        yield Door(plain_api_server.client, plain_api_server.audit_log)
    understudy.reload(legacy="allow")


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


@pytest.fixture
def wishes(cast: Cast, rights: Rights) -> list[Wish]:
    """What four callers do by legacy: as a user, a user with groups, an account, their node."""
    namespace, node = cast.namespace(), cast.node()
    robot, deployer = cast.user("robot"), cast.user("deployer")
    agent = cast.service_account(node=node)
    bob, app = cast.user("bob"), cast.service_account(namespace=namespace)
    everything = ["get", "list", "create", "delete"]
    for target in (bob.name, app.name):
        rights.grant(target, may(*everything, resources=["pods", "configmaps"]))
    for caller in (robot, deployer, agent):
        rights.grant(caller, *EVERYBODY)
    with_parts = as_user(
        bob.name, groups=["a", "b"], uid="u-1", extra=[("example.com%2freason", "test")]
    )
    configmap: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "made-"},
    }
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    review = f"/apis/{AUTHENTICATION}/v1/selfsubjectreviews"
    return [
        Wish(robot, tuple(as_user(bob.name)), "GET", f"/api/v1/namespaces/{namespace}/pods"),
        Wish(robot, tuple(as_user(bob.name)), "GET", "/api/v1/pods"),
        Wish(robot, tuple(as_user(bob.name)), "GET", "/apis/apps/v1"),
        Wish(robot, tuple(with_parts), "GET", configmaps),
        Wish(deployer, tuple(as_user(app.name)), "POST", configmaps, configmap),
        Wish(agent, tuple(as_node(node)), "POST", review, REVIEW),
    ]


@pytest.fixture
def cluster(
    control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path
) -> tuple[str, str]:
    """Options that ask the cluster, as somebody who may ask about others."""
    credential = control_plane.clients.issue_client("asker", groups=["system:masters"])
    server = plain_api_server
    kubeconfig = write_kubeconfig(
        tmp_path / "asker.yaml", url=server.url, ca_pem=server.ca_pem, credential=credential
    )
    return "--cluster", f"--kubeconfig={kubeconfig}"


def report(log: Path, callers: set[str], *options: str) -> subprocess.CompletedProcess[str]:
    chosen = [f"--impersonator={name}" for name in sorted(callers)]
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "report", *chosen, *options, log],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_printed_grants_keep_everything_working_without_legacy(
    door: Door,
    understudy: Understudy,
    wishes: list[Wish],
    admin: ApiClient,
    cluster: tuple[str, str],
) -> None:
    by_legacy = [door.ask(wish) for wish in wishes]
    last = wishes[-1].caller
    marker = door.client(last.credential).request("GET", "/version").header("Audit-Id") or ""
    complete_event(door.audit_log, marker)
    understudy.reload(legacy="deny")
    behind = Door(understudy.client, understudy.audit_log)
    refused = [behind.ask(wish) for wish in wishes]

    callers = {wish.caller.name for wish in wishes}
    missing = report(door.audit_log, callers, *cluster).stdout
    done = report(door.audit_log, callers, "--grant-only")
    for manifest in yaml.safe_load_all(done.stdout):
        apply(admin, manifest)

    assert {200, 201} >= set(by_legacy), by_legacy
    assert set(refused) == {403}
    for wish, status in zip(wishes, by_legacy, strict=True):
        poll(lambda w=wish, s=status: behind.ask(w) == s, f"{wish} does not work")  # type: ignore[misc]
    assert missing.count("missing  impersonate") > len(callers)
    assert "missing" not in report(door.audit_log, callers, *cluster).stdout
    assert report(door.audit_log, callers, "--grant-only", *cluster).stdout == ""
    assert "impersonate\n" not in done.stdout
    assert done.stderr == ""
    # What was not done is not granted.
    nobody = wishes[0]
    response = understudy.client(nobody.caller.credential).request(
        "DELETE", "/api/v1/namespaces/default/pods/none", headers=list(nobody.headers)
    )
    assert is_refused_impersonation(response)


def test_kubectl_goes_on_working(
    understudy: Understudy,
    cast: Cast,
    rights: Rights,
    admin: ApiClient,
    binaries: Binaries,
) -> None:
    understudy.reload(legacy="allow")
    namespace = cast.namespace()
    robot, bob = cast.user("robot"), cast.user("bob")
    rights.grant(robot, *EVERYBODY)
    rights.grant(bob, may("get", "list", resources=["pods"]))
    kubeconfig = understudy.process.kubeconfig_for(robot.credential, name=robot.name)
    kubectl = Kubectl(binaries.kubectl, kubeconfig)
    get_pods = ("get", "pods", "-n", namespace, "--as", bob.name)
    try:
        by_legacy = kubectl.run(*get_pods)
        marker = understudy.client(robot.credential).request("GET", "/version").header("Audit-Id")
        complete_event(understudy.audit_log, marker or "")
        understudy.reload(legacy="deny")
        refused = kubectl.run(*get_pods)

        for manifest in yaml.safe_load_all(
            report(understudy.audit_log, {robot.name}, "--grant-only").stdout
        ):
            apply(admin, manifest)

        assert by_legacy.returncode == 0, by_legacy.stderr
        assert b"Forbidden" in refused.stderr
        poll(lambda: kubectl.run(*get_pods).returncode == 0, "kubectl does not work any more")
    finally:
        understudy.reload(legacy="allow")


def test_what_no_grant_mends_is_told_of_a_real_log(
    understudy: Understudy, cast: Cast, rights: Rights
) -> None:
    understudy.reload(legacy="allow")
    robot, node = cast.user("robot"), cast.node()
    rights.grant(robot, *EVERYBODY)
    client = understudy.client(robot.credential)
    headers = [*as_node(node), ("Impersonate-Group", "system:nodes")]

    response = client.request(
        "POST", f"/apis/{AUTHENTICATION}/v1/selfsubjectreviews", headers=headers, body=REVIEW
    )
    complete_event(understudy.audit_log, response.header("Audit-Id") or "")

    assert response.status == 201
    done = report(understudy.audit_log, {robot.name})
    text = " ".join(done.stdout.split())
    assert f"broken system:node:{node}; groups system:nodes: 1 requests" in text
    assert "instead: impersonate by name alone" in text
    assert report(understudy.audit_log, {robot.name}, "--grant-only").stdout == ""
