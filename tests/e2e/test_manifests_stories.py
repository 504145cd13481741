"""From an empty cluster: the base is applied, the proxy runs as it says, and both stories work.

Nothing is granted, and no file written, but what `docs/installation.md` and the manifests say.
"""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient as KubernetesClient
from kubernetes_asyncio.client import ApiException, Configuration, CoreV1Api
from kubernetes_asyncio.config import incluster_config

from proxy.sandbox.aggregated import AggregatedServer
from proxy.sandbox.aggregated_server import CONSOLE_PROTOCOL, GROUP
from proxy.sandbox.api_client import Answer, client_context
from proxy.sandbox.binaries import Binaries
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import (
    create_namespace,
    create_node,
    create_pod,
    create_service_account,
    token_for,
)
from proxy.sandbox.ports import LOOPBACK
from proxy.sandbox.processes import start_child
from proxy.sandbox.tour_grants import STORY_2
from proxy.sandbox.web_socket import WebSocket
from tests.support.control_plane import who_am_i
from tests.support.empty_cluster import MANIFESTS, NAMESPACE, EmptyCluster, built, empty_cluster
from tests.support.impersonation import Rights, as_user, may, may_be, may_do, message_of
from tests.support.installed_proxy import CONTAINER, InstalledProxy, only, pod_environment
from tests.support.pod_on_disk import PodOnDisk, create_pod_of
from tests.support.streaming import wait_until

pytestmark = pytest.mark.timeout(180)

NODE, OTHER_NODE = "node-1", "node-2"
CONSOLE = f"/apis/{GROUP}/v1/namespaces/{{}}/virtualmachines/testvm/console"


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[EmptyCluster]:
    with empty_cluster(binaries) as running:
        names = running.run("get", "namespaces", "--output=name").split()
        assert f"namespace/{NAMESPACE}" not in names
        yield running


@pytest.fixture(scope="module")
def ca_file(cluster: EmptyCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two commands of the installation; what is left behind is the CA for clients."""
    ca_file = tmp_path_factory.mktemp("installer") / "ca.crt"
    cluster.install("--kustomize", str(MANIFESTS / "base"))
    # The address is where the proxy runs here, beside the names of its Service.
    words = ["certificate", "--service=understudy", LOOPBACK, f"--ca-out={ca_file}"]
    printed = subprocess.run(
        [sys.executable, "-m", "proxy", *words], capture_output=True, check=True, timeout=60
    )
    cluster.run("apply", "--validate=strict", "--filename=-", stdin=printed.stdout)
    # No controller does it here.
    cluster.publish_root_ca(NAMESPACE)
    return ca_file


@pytest.fixture(scope="module")
def proxy(
    cluster: EmptyCluster, ca_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledProxy]:
    deployment = only(built(cluster.kubectl, MANIFESTS / "base"), "Deployment")
    directory = tmp_path_factory.mktemp("proxy")
    with InstalledProxy(cluster, deployment, directory, ca_pem=ca_file.read_bytes()) as running:
        yield running


def test_it_runs_with_the_rights_of_the_base_and_misses_none(proxy: InstalledProxy) -> None:
    def log() -> str:
        return proxy.log_file.read_text()

    wait_until(lambda: log().count("own rights as they should be") == 2, "rights are not told")

    for account in ("understudy-reviewer", "understudy-forwarder"):
        assert f'"user":"system:serviceaccount:{NAMESPACE}:{account}"' in log()
    assert '"level":"error"' not in log()
    assert "one identity" not in log()


@dataclass(frozen=True, slots=True)
class Hop:
    """A hop that runs as an overlay says, and the pod it belongs to."""

    pod: PodOnDisk
    port: int
    application: str


def _started_hop(
    cluster: EmptyCluster, proxy: InstalledProxy, ca_file: Path, overlay: str, directory: Path
) -> Iterator[Hop]:
    """Install an overlay, and run the hop of its workload's pod on NODE."""
    objects = built(cluster.kubectl, MANIFESTS / "overlays" / overlay)
    workload = next(one for one in objects if "template" in one.get("spec", {}))
    namespace = workload["metadata"]["namespace"]
    cluster.install("--kustomize", str(MANIFESTS / "overlays" / overlay))
    cluster.run(
        *("--namespace", namespace, "create", "configmap", "understudy-ca"),
        f"--from-file={ca_file}",
    )
    created = create_pod_of(cluster.admin, workload, name=f"{overlay}-pod", node=NODE)
    pod = PodOnDisk(cluster.admin, created, directory / "volumes")
    service = f"https://understudy.{NAMESPACE}.svc"
    arguments = [word.replace(service, proxy.url) for word in pod.arguments(CONTAINER)]
    assert f"--server={proxy.url}" in arguments
    process = start_child(
        # Any free port, because tests share a machine; the manifest leaves it at its default.
        [sys.executable, "-m", "proxy", *arguments, f"--listen={LOOPBACK}:0"],
        log_file=directory / "hop.log",
        environment=pod_environment(cluster.server.url) | pod.environment(CONTAINER),
    )
    try:
        startup = [pod.here(word) for word in pod.probe(CONTAINER, "startup")["exec"]["command"]]

        def has_started() -> bool:
            process.ensure_running()
            return subprocess.run(startup, check=False, timeout=30).returncode == 0

        wait_until(has_started, f"the startup probe fails, see {process.log_file}")
        first = json.loads(process.log_file.read_text().splitlines()[0])
        (application,) = (one["name"] for one in created["spec"]["containers"])
        yield Hop(pod, int(first["address"].rpartition(":")[2]), application)
    finally:
        process.stop()


@pytest.fixture(scope="module")
def nodes(cluster: EmptyCluster) -> dict[str, str]:
    """Two nodes, each with a pod that is nobody's in particular; returns the pods' names."""
    create_namespace(cluster.admin, "default")
    for node in (NODE, OTHER_NODE):
        create_node(cluster.admin, node)
        create_pod(cluster.admin, "default", f"pod-on-{node}", node=node)
    return {node: f"pod-on-{node}" for node in (NODE, OTHER_NODE)}


@pytest.fixture(scope="module")
def node_agent(
    cluster: EmptyCluster,
    proxy: InstalledProxy,
    ca_file: Path,
    nodes: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hop]:
    yield from _started_hop(
        cluster, proxy, ca_file, "node-agent", tmp_path_factory.mktemp("node-agent")
    )


@pytest.fixture(scope="module")
def sidecar(
    cluster: EmptyCluster,
    proxy: InstalledProxy,
    ca_file: Path,
    nodes: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hop]:
    yield from _started_hop(cluster, proxy, ca_file, "sidecar", tmp_path_factory.mktemp("sidecar"))


async def _unmodified_client(
    hop: Hop, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesClient]:
    """The client of an application that only knows that it is in a cluster."""
    for name in ("SERVICE_TOKEN_FILENAME", "SERVICE_CERT_FILENAME"):
        monkeypatch.setattr(incluster_config, name, hop.pod.here(getattr(incluster_config, name)))
    variables = hop.pod.environment(hop.application)
    assert variables.pop("KUBERNETES_SERVICE_PORT") == "7443"  # where a hop listens unless told
    for name, value in (variables | {"KUBERNETES_SERVICE_PORT": str(hop.port)}).items():
        monkeypatch.setenv(name, value)
    settings = Configuration()
    config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]  # it ships half its types
    async with KubernetesClient(configuration=settings) as client:
        yield client


@pytest.fixture
async def agent(
    node_agent: Hop, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesClient]:
    async for client in _unmodified_client(node_agent, monkeypatch):
        yield client


@pytest.fixture
async def dashboard(
    sidecar: Hop, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesClient]:
    async for client in _unmodified_client(sidecar, monkeypatch):
        yield client


async def test_story_1_an_unmodified_agent_lists_the_pods_of_its_node(
    agent: KubernetesClient, nodes: dict[str, str]
) -> None:
    found = await CoreV1Api(agent).list_pod_for_all_namespaces(
        field_selector=f"spec.nodeName={NODE}"
    )

    names = {pod.metadata.name for pod in found.items}
    assert {nodes[NODE], "node-agent-pod"} <= names
    assert nodes[OTHER_NODE] not in names
    assert {pod.spec.node_name for pod in found.items} == {NODE}


async def test_story_1_and_nothing_of_another_node(
    agent: KubernetesClient, nodes: dict[str, str]
) -> None:
    api = CoreV1Api(agent)
    calls = {
        "list": api.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={OTHER_NODE}"),
        "list all": api.list_pod_for_all_namespaces(),
        "get": api.read_namespaced_pod(nodes[OTHER_NODE], "default"),
        "delete": api.delete_namespaced_pod(nodes[NODE], "default"),
        "secrets": api.list_namespaced_secret("default"),
    }

    outcomes = await asyncio.gather(*calls.values(), return_exceptions=True)

    statuses = {
        name: outcome.status if isinstance(outcome, ApiException) else outcome
        for name, outcome in zip(calls, outcomes, strict=True)
    }
    assert statuses == dict.fromkeys(calls, 403)


async def test_a_sidecars_application_acts_as_the_account_and_only_looks_at_pods(
    dashboard: KubernetesClient, nodes: dict[str, str]
) -> None:
    api = CoreV1Api(dashboard)

    found = await api.list_namespaced_pod("dashboards")
    refused = []
    # The account itself may see the first; for the second it lacks the right.
    for call in (api.list_namespaced_config_map("dashboards"), api.list_namespaced_pod("default")):
        with pytest.raises(ApiException) as denied:
            await call
        refused.append(json.loads(denied.value.body or "")["message"])

    assert [pod.metadata.name for pod in found.items] == ["sidecar-pod"]
    assert "cannot impersonate-on:serviceaccount:list" in refused[0]
    assert "cannot impersonate-on:serviceaccount:list" in refused[1]


@pytest.fixture(scope="module")
def deputy(cluster: EmptyCluster, nodes: dict[str, str]) -> Iterator[BearerToken]:
    """The second story's controller with exactly the KEP's RBAC, and consoles to open."""
    create_namespace(cluster.admin, "other")
    create_namespace(cluster.admin, "deputy-ns")
    create_service_account(cluster.admin, "deputy-ns", "deputy")
    rights = Rights(cluster.server)
    with AggregatedServer(cluster.control_plane) as consoles:
        consoles.register(cluster.admin)
        cluster.run("apply", "--validate=strict", "--filename=-", stdin=STORY_2.encode())
        name = "system:serviceaccount:deputy-ns:deputy"
        rights.wait_for(name, may_be("user-info", "users"))
        console = {"resources": ["virtualmachines/console"], "group": GROUP}
        rights.wait_for(name, may_do("user-info", "get", **console), namespace="default")
        rights.grant("alice", may("get", "update", **console))
        yield token_for(cluster.admin, "deputy-ns", "deputy")


def ask(
    proxy: InstalledProxy, deputy: BearerToken, method: str, namespace: str, user: str
) -> Answer:
    return proxy.client(deputy).request(method, CONSOLE.format(namespace), headers=as_user(user))


def test_story_2_the_deputy_opens_the_console_for_a_user_and_the_backend_sees_the_user(
    proxy: InstalledProxy, deputy: BearerToken
) -> None:
    headers = [*as_user("alice"), ("Authorization", f"Bearer {deputy.value}")]

    with WebSocket(
        proxy.url + CONSOLE.format("default"),
        context=client_context(proxy.ca_pem, deputy),
        protocol=CONSOLE_PROTOCOL,
        headers=headers,
    ) as console:
        greeting = json.loads(console.receive())
        console.send("uname -a")
        echo = console.receive()

    assert greeting["remote"]["x-remote-user"] == ["alice"]
    assert greeting["remote"]["x-remote-group"] == ["system:authenticated"]
    assert echo in ("uname -a", b"uname -a")


def test_story_2_another_namespace_and_update_are_forbidden(
    proxy: InstalledProxy, deputy: BearerToken
) -> None:
    """The user may do both: it is the deputy that may not, in the user's name."""
    elsewhere = ask(proxy, deputy, "GET", "other", "alice")
    update = ask(proxy, deputy, "PUT", "default", "alice")
    for_bob = ask(proxy, deputy, "GET", "default", "bob")

    assert (elsewhere.status, update.status, for_bob.status) == (403, 403, 403)
    assert "cannot impersonate-on:user-info:get" in message_of(elsewhere)
    assert "cannot impersonate-on:user-info:update" in message_of(update)
    assert 'User "bob" cannot get resource "virtualmachines/console"' in message_of(for_bob)


def test_the_audit_trail_is_on_standard_output(proxy: InstalledProxy, deputy: BearerToken) -> None:
    answer = ask(proxy, deputy, "GET", "default", "alice")

    def events() -> list[dict[str, object]]:
        lines = map(json.loads, proxy.log_file.read_text().splitlines())
        return [one for one in lines if one.get("auditID") == answer.header("Audit-Id")]

    wait_until(lambda: events() != [], "the request is in no event")
    (event,) = events()
    assert event["user"] != event["impersonatedUser"]
    assert event["impersonatedUser"] == {"username": "alice", "groups": ["system:authenticated"]}


def test_callers_without_impersonation_are_themselves(
    cluster: EmptyCluster, proxy: InstalledProxy
) -> None:
    create_namespace(cluster.admin, "tenants")

    seen = who_am_i(proxy.client(token_for(cluster.admin, "tenants", "default")))

    assert seen["username"] == "system:serviceaccount:tenants:default"


def test_no_tenant_pod_has_a_privileged_credential(node_agent: Hop, sidecar: Hop) -> None:
    """Whatever lies in its volumes: the only token is its own, the only key vouches for the hop."""
    accounts = set()
    for hop in (node_agent, sidecar):
        volumes = Path(hop.pod.here("/shared")).parent
        files = [one for one in volumes.rglob("*") if one.is_file() and not one.is_symlink()]
        secrets = [one for one in files if one.name not in ("ca.crt", "namespace")]
        (token,) = (one for one in secrets if one.parent.name == "token")
        kept = {one.parent.name for one in secrets if one != token}
        accounts.add(_subject(token.read_text()))

        assert kept == {"kept"}
    assert accounts == {
        "system:serviceaccount:agents:agent",
        "system:serviceaccount:dashboards:dashboard",
    }


def _subject(token: str) -> str:
    """Return whom a token is of, by its own words."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    subject: str = claims["sub"]
    return subject
