"""Tokens that are bound to pods: whose node they open, for how long, and where none is named."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import create_service_account, grant, token_for
from proxy.sandbox.proxy_rbac import REVIEWER_NAME
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.support.control_plane import fresh_name, who_am_i
from tests.support.impersonation import (
    Caller,
    Rights,
    as_node,
    is_refused_impersonation,
    may_ask_who,
    may_be,
    message_of,
    poll,
)

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
NODE_NAME = "authentication.kubernetes.io/node-name"
POD_NAME = "authentication.kubernetes.io/pod-name"
ASSOCIATED = (may_be("associated-node", "nodes"), may_ask_who("associated-node"))
COMPONENT = Path(__file__).parents[2] / "manifests" / "components" / "bound-pods" / "rbac.yaml"
LONGEST_LIFE_SECONDS = 20


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("tokens-of-pods")
    with running_understudy(control_plane, plain_api_server, directory) as running:
        yield running


@pytest.fixture(scope="module")
def looking_understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    """A proxy that looks up pods, with the rights of the component that goes with it."""
    role = next(yaml.safe_load_all(COMPONENT.read_text()))
    subject = {"kind": "User", "name": REVIEWER_NAME}
    grant(plain_api_server.admin, role["metadata"]["name"], rules=role["rules"], to=subject)
    directory = tmp_path_factory.mktemp("looking")
    with running_understudy(
        control_plane, plain_api_server, directory, impersonation={"boundPodLookup": True}
    ) as running:
        yield running


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


def counted(understudy: Understudy, series: str) -> float:
    """Return the sum of the samples whose name and labels match."""
    found = re.findall(rf"^{series} (\S+)$", understudy.metrics(), re.MULTILINE)
    return sum(map(float, found))


def access_reviews(understudy: Understudy) -> float:
    return counted(understudy, r"understudy_access_reviews_total\{.*\}")


def test_a_bound_token_opens_its_own_node_and_its_decision_serves_each_pod_for_its_own(
    understudy: Understudy, cast: Cast, rights: Rights
) -> None:
    node1, node2 = cast.node(), cast.node()
    agent = cast.service_account(node=node1)
    rights.grant(agent, *ASSOCIATED)
    neighbour = cast.account_on(agent.subject["namespace"], agent.subject["name"], node=node2)
    ours, theirs = understudy.client(agent.credential), understudy.client(neighbour.credential)

    before = access_reviews(understudy)
    first = who_am_i(ours, *as_node(node1))
    asked = access_reviews(understudy) - before
    second = theirs.request("POST", WHO, headers=as_node(node2), body=REVIEW)
    asked_again = access_reviews(understudy) - before - asked
    crossed = [
        client.request("POST", WHO, headers=as_node(node), body=REVIEW)
        for client, node in ((ours, node2), (theirs, node1))
    ]

    assert first["username"] == f"system:node:{node1}"
    assert second.json()["status"]["userInfo"]["username"] == f"system:node:{node2}"
    event = complete_event(understudy.audit_log, second.header("Audit-Id") or "")
    constraint = event["authenticationMetadata"]["impersonationConstraint"]
    assert constraint == "impersonate:associated-node"
    assert (asked, asked_again) == (2, 0)
    for response in crossed:
        assert is_refused_impersonation(response)
        assert "impersonate-on:arbitrary-node:create" in message_of(response)


@pytest.mark.timeout(60)
def test_a_token_ends_soon_after_its_pod(
    understudy: Understudy, cast: Cast, admin: ApiClient
) -> None:
    namespace = cast.namespace()
    pod = cast.pod(namespace)
    token = token_for(admin, namespace, "default", pod=pod)
    name = pod["metadata"]["name"]
    with understudy.client(token).connect() as connection:
        assert connection.request("GET", "/version").status == 200

        admin.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")

        deleted = time.monotonic()
        while connection.request("GET", "/version").status == 200:
            assert time.monotonic() - deleted < LONGEST_LIFE_SECONDS
            time.sleep(0.05)
        assert connection.request("GET", "/version").status == 401
    assert time.monotonic() - deleted < LONGEST_LIFE_SECONDS


class UnboundAgent:
    """A service account's pod that is on no node yet, and a token that was minted then."""

    def __init__(self, admin: ApiClient, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace
        self._account, self._name = fresh_name("agent"), fresh_name("pod")
        create_service_account(admin, namespace, self._account)
        token = token_for(admin, namespace, self._account, pod=self.create())
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": self._account}
        self.caller = Caller(f"system:serviceaccount:{namespace}:{self._account}", token, subject)

    def create(self) -> Any:
        """Create the pod, on no node."""
        specification = {
            "serviceAccountName": self._account,
            "containers": [{"name": "main", "image": "none"}],
        }
        metadata = {"namespace": self._namespace, "name": self._name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": specification}
        return self._admin.call("POST", f"/api/v1/namespaces/{self._namespace}/pods", body=pod)

    def bind(self, node: str) -> None:
        """Put the pod on a node, as a scheduler does."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": self._name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._admin.call("POST", f"{self._path}/binding", body=binding)

    def delete(self) -> None:
        """Delete the pod at once."""
        self._admin.call("DELETE", f"{self._path}?gracePeriodSeconds=0")

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods/{self._name}"


@pytest.fixture
def unbound(admin: ApiClient, namespace: str, rights: Rights) -> UnboundAgent:
    agent = UnboundAgent(admin, namespace)
    rights.grant(agent.caller, *ASSOCIATED)
    return agent


def test_where_a_token_names_no_node_its_pod_tells(
    looking_understudy: Understudy,
    understudy: Understudy,
    plain_api_server: ApiServer,
    unbound: UnboundAgent,
    cast: Cast,
) -> None:
    node1, node2 = cast.node(), cast.node()
    client = looking_understudy.client(unbound.caller.credential)
    extra = who_am_i(client)["extra"]
    assert isinstance(extra, dict)
    assert POD_NAME in extra
    assert NODE_NAME not in extra
    on_no_node = client.request("POST", WHO, headers=as_node(node1), body=REVIEW)

    unbound.bind(node1)
    on_node1 = client.request("POST", WHO, headers=as_node(node1), body=REVIEW)
    on_node2 = client.request("POST", WHO, headers=as_node(node2), body=REVIEW)
    unresolved = understudy.client(unbound.caller.credential).request(
        "POST", WHO, headers=as_node(node1), body=REVIEW
    )

    for refused in (on_no_node, on_node2, unresolved):
        assert is_refused_impersonation(refused)
        assert "impersonate-on:arbitrary-node:create" in message_of(refused)
    user = on_node1.json()["status"]["userInfo"]
    assert (user["username"], user.get("extra")) == (f"system:node:{node1}", None)
    audit_id = on_node1.header("Audit-Id") or ""
    for audit_log in (looking_understudy.audit_log, plain_api_server.audit_log):
        event = complete_event(audit_log, audit_id)
        assert event["impersonatedUser"]["username"] == f"system:node:{node1}"
        assert NODE_NAME not in str(event)


def test_a_pod_of_the_same_name_is_not_the_tokens_pod(
    looking_understudy: Understudy, unbound: UnboundAgent, cast: Cast
) -> None:
    node1 = cast.node()
    client = looking_understudy.client(unbound.caller.credential)
    # Known from now on for some seconds, here and at the API server, whatever becomes of the pod.
    assert client.request("GET", "/version").status == 200

    unbound.delete()
    unbound.create()
    unbound.bind(node1)

    response = client.request("POST", WHO, headers=as_node(node1), body=REVIEW)
    assert is_refused_impersonation(response)
    assert "impersonate-on:arbitrary-node:create" in message_of(response)


def test_the_pod_is_looked_up_once_while_it_is_remembered(
    looking_understudy: Understudy, unbound: UnboundAgent, cast: Cast
) -> None:
    node1 = cast.node()
    unbound.bind(node1)
    client = looking_understudy.client(unbound.caller.credential)

    def found() -> float:
        return counted(looking_understudy, r'understudy_pod_lookups_total\{outcome="found"\}')

    before = found()
    for _ in range(5):
        assert who_am_i(client, *as_node(node1))["username"] == f"system:node:{node1}"

    poll(lambda: found() > before, "nothing was looked up")
    assert found() == before + 1
