"""The first story: an application that knows nothing of it acts as its node, or as an account."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient as KubernetesClient
from kubernetes_asyncio.client import ApiException, CoreV1Api

from proxy.sandbox.objects import create_node, create_pod
from tests.support.empty_cluster import MANIFESTS, EmptyCluster, built
from tests.support.installed_proxy import InstalledProxy
from tests.support.installed_sidecar import Hop, in_cluster_client, started_hop

pytestmark = pytest.mark.timeout(180)

NODE, OTHER_NODE = "node-1", "node-2"
HopOf = Callable[[str], AbstractContextManager[Hop]]


@pytest.fixture(scope="module")
def nodes(cluster: EmptyCluster, home: Path) -> dict[str, str]:
    """Two nodes, each with a pod that is nobody's in particular; returns the pods' names."""
    for node in (NODE, OTHER_NODE):
        create_node(cluster.admin, node)
        create_pod(cluster.admin, "default", f"pod-on-{node}", node=node)
    return {node: f"pod-on-{node}" for node in (NODE, OTHER_NODE)}


@pytest.fixture(scope="module")
def hop_of(
    cluster: EmptyCluster,
    proxy: InstalledProxy,
    home: Path,
    nodes: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> HopOf:
    """Installs an overlay, and runs the hop of its workload."""

    def install(overlay: str) -> AbstractContextManager[Hop]:
        cluster.follow(overlay, home)
        objects = built(cluster.kubectl, MANIFESTS / "overlays" / overlay)
        workload = next(one for one in objects if "template" in one.get("spec", {}))
        directory = tmp_path_factory.mktemp(overlay)
        return started_hop(cluster, workload, directory, node=NODE, proxy_url=proxy.url)

    return install


@pytest.fixture(scope="module")
def node_agent(hop_of: HopOf) -> Iterator[Hop]:
    with hop_of("node-agent") as hop:
        yield hop


@pytest.fixture(scope="module")
def sidecar(hop_of: HopOf) -> Iterator[Hop]:
    with hop_of("sidecar") as hop:
        yield hop


@pytest.fixture
async def agent(
    node_agent: Hop, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesClient]:
    async with in_cluster_client(node_agent, monkeypatch) as client:
        yield client


@pytest.fixture
async def dashboard(
    sidecar: Hop, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesClient]:
    async with in_cluster_client(sidecar, monkeypatch) as client:
        yield client


async def test_story_1_an_unmodified_agent_lists_the_pods_of_its_node(
    agent: KubernetesClient, nodes: dict[str, str]
) -> None:
    found = await CoreV1Api(agent).list_pod_for_all_namespaces(
        field_selector=f"spec.nodeName={NODE}"
    )

    names = {pod.metadata.name for pod in found.items}
    assert {nodes[NODE], "agent-pod"} <= names
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

    assert [pod.metadata.name for pod in found.items] == ["dashboard-pod"]
    assert "cannot impersonate-on:serviceaccount:list" in refused[0]
    assert "cannot impersonate-on:serviceaccount:list" in refused[1]


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
