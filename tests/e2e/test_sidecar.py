"""`understudy act` before the proxy before the real API server: the KEP's first story, in a pod."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from kubernetes_asyncio import config, watch
from kubernetes_asyncio.client import ApiClient as KubernetesClient
from kubernetes_asyncio.client import ApiException, Configuration, CoreV1Api
from kubernetes_asyncio.config import incluster_config

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import create_namespace
from proxy.sandbox.processes import LOOPBACK
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import who_am_i
from tests.support.impersonation import (
    Caller,
    Rights,
    may_ask_who,
    may_be,
    may_do,
)
from tests.support.kubectl import Kubectl
from tests.support.sidecar_process import HopProcess

# The first test may have to build the fake kubelet or to fetch the old kubectl.
pytestmark = pytest.mark.timeout(300)

DOCUMENT = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text()
MANIFESTS = DOCUMENT.partition("```yaml\n")[2].partition("```")[0]


@pytest.fixture(scope="module")
def cast(control_plane: ControlPlane, plain_api_server: ApiServer) -> Cast:
    return Cast(control_plane, plain_api_server.admin)


@pytest.fixture(scope="module")
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


@pytest.fixture(scope="module")
def node(cast: Cast) -> str:
    return cast.node()


@pytest.fixture(scope="module")
def agent(cast: Cast, rights: Rights, node: str) -> Caller:
    """Runs on the node, as its token says, and may look at pods as that node; no more."""
    caller = cast.service_account(node=node)
    rights.grant(
        caller,
        may_be("associated-node", "nodes"),
        may_do("associated-node", "get", "list", "watch"),
        may_ask_who("associated-node"),
    )
    return caller


def token_of(caller: Caller) -> BearerToken:
    assert isinstance(caller.credential, BearerToken)
    return caller.credential


@pytest.fixture(scope="module")
def mounted_token(agent: Caller, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the kubelet would renew the agent's token."""
    file = tmp_path_factory.mktemp("mounted") / "token"
    file.write_text(token_of(agent).value)
    return file


@pytest.fixture(scope="module")
def hop(
    understudy: ProxyProcess, node: str, agent: Caller, mounted_token: Path
) -> Iterator[HopProcess]:
    options = (
        f"--as=system:node:{node}",
        f"--namespace={agent.subject['namespace']}",
        f"--token-link={mounted_token}",
    )
    with HopProcess(*options, server=understudy.url, ca_pem=understudy.ca_pem) as running:
        yield running


@pytest.fixture
async def in_cluster(
    hop: HopProcess, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesClient]:
    """The client of an agent that knows nothing of the hop: it is simply in a cluster."""
    # What mounting the shared directory at the usual place does in a pod.
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(hop.shared / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(hop.shared / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", LOOPBACK)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(hop.port))
    settings = Configuration()
    config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]  # it ships half its types
    async with KubernetesClient(configuration=settings) as client:
        yield client


def new_pod(cast: Cast, namespace: str, node: str | None) -> str:
    """Create a pod on this node, or on one of its own, and return its name."""
    name: str = cast.pod(namespace, node=node)["metadata"]["name"]
    return name


def pods_of(node: str) -> str:
    return f"spec.nodeName={node}"


async def test_an_unmodified_agent_lists_the_pods_of_its_node(
    in_cluster: KubernetesClient, cast: Cast, node: str, agent: Caller
) -> None:
    namespace = agent.subject["namespace"]
    neighbour = await asyncio.to_thread(new_pod, cast, namespace, node)
    elsewhere = await asyncio.to_thread(new_pod, cast, namespace, None)

    found = await CoreV1Api(in_cluster).list_pod_for_all_namespaces(field_selector=pods_of(node))

    names = {pod.metadata.name for pod in found.items}
    assert neighbour in names
    assert elsewhere not in names
    assert {pod.spec.node_name for pod in found.items} == {node}


async def test_and_of_no_other(in_cluster: KubernetesClient, cast: Cast) -> None:
    other = await asyncio.to_thread(cast.node)
    api = CoreV1Api(in_cluster)

    with pytest.raises(ApiException, match="Forbidden") as of_another:
        await api.list_pod_for_all_namespaces(field_selector=pods_of(other))
    with pytest.raises(ApiException, match="Forbidden") as of_all:
        await api.list_pod_for_all_namespaces()

    assert (of_another.value.status, of_all.value.status) == (403, 403)


async def test_a_watch_shows_a_pod_as_it_comes(
    in_cluster: KubernetesClient, cast: Cast, node: str, agent: Caller
) -> None:
    api = CoreV1Api(in_cluster)
    before = await api.list_pod_for_all_namespaces(field_selector=pods_of(node))
    watching = watch.Watch()

    async with watching.stream(
        api.list_pod_for_all_namespaces,
        field_selector=pods_of(node),
        resource_version=before.metadata.resource_version,
        timeout_seconds=60,
    ) as events:
        created = await asyncio.to_thread(new_pod, cast, agent.subject["namespace"], node)
        first = await anext(aiter(events))

    assert (first["type"], first["object"].metadata.name) == ("ADDED", created)


@pytest.mark.parametrize("name", ["Impersonate-User", "impersonate-user", "Impersonate_User"])
async def test_an_agent_that_impersonates_by_itself_is_refused(
    name: str, in_cluster: KubernetesClient, node: str
) -> None:
    in_cluster.set_default_header(name, "system:admin")

    with pytest.raises(ApiException) as refused:
        await CoreV1Api(in_cluster).list_pod_for_all_namespaces(field_selector=pods_of(node))

    assert refused.value.status == 400
    status = json.loads(refused.value.body or "")
    assert status["message"].startswith("impersonation headers are not accepted here")


def test_the_api_server_sees_the_node(hop: HopProcess, agent: Caller, node: str) -> None:
    seen = who_am_i(hop.client(token_of(agent)))

    assert seen["username"] == f"system:node:{node}"
    assert seen["groups"] == ["system:nodes", "system:authenticated"]


def test_a_hop_for_another_node_opens_nothing(
    understudy: ProxyProcess, cast: Cast, agent: Caller
) -> None:
    """Who starts a hop gains nothing: the proxy asks what the application's own token may do."""
    other = cast.node()
    target = f"/api/v1/pods?fieldSelector={quote(pods_of(other))}"

    with HopProcess(
        f"--as=system:node:{other}", server=understudy.url, ca_pem=understudy.ca_pem
    ) as hop:
        response = hop.client(token_of(agent)).request("GET", target)

    assert response.status == 403
    assert "cannot impersonate-on:arbitrary-node:list" in response.json()["message"]


@pytest.mark.parametrize("credential", [None, BearerToken("nonsense")], ids=["none", "bad"])
def test_without_a_good_token_it_is_the_proxys_401(
    credential: BearerToken | None, hop: HopProcess
) -> None:
    response = hop.client(credential).request("GET", "/api/v1/pods")

    assert (response.status, response.json()["reason"]) == (401, "Unauthorized")


def test_the_cluster_takes_what_the_document_shows(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    create_namespace(plain_api_server.admin, "agents")
    kubeconfig = plain_api_server.kubeconfig_for(control_plane.admin, name="act-document")
    kubectl = Kubectl(control_plane.binaries.kubectl, kubeconfig)

    applied = kubectl.run(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=MANIFESTS.encode(),
    )

    assert applied.returncode == 0, applied.stderr
    assert len(applied.stdout.splitlines()) == 3


def test_a_hop_starts_as_the_document_shows(
    understudy: ProxyProcess, agent: Caller, node: str, mounted_token: Path, tmp_path: Path
) -> None:
    (_, _, daemon_set) = yaml.safe_load_all(MANIFESTS)
    (sidecar,) = daemon_set["spec"]["template"]["spec"]["initContainers"]
    command, *options = sidecar["args"]
    # What the kubelet and the cluster put in place of names.
    places = {
        "$(NODE_NAME)": node,
        "$(POD_NAMESPACE)": agent.subject["namespace"],
        "/var/run/secrets/understudy/token": str(mounted_token),
        "/kept": str(tmp_path),
    }
    kept = ("--as", "--namespace", "--token-link", "--certificate-dir")
    options = [one for one in options if one.startswith(kept)]
    for name, place in places.items():
        options = [one.replace(name, place) for one in options]

    with HopProcess(*options, server=understudy.url, ca_pem=understudy.ca_pem) as hop:
        seen = who_am_i(hop.client(token_of(agent)))
        shown = sorted(file.name for file in hop.shared.iterdir())

    assert command == "act"
    assert seen["username"] == f"system:node:{node}"
    assert shown == ["ca.crt", "namespace", "token"]
