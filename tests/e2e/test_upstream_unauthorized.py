"""Whose a 401 is, with the real API server: an aggregated server's own, or a verdict on us."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient, APIResponse
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import Credential, KeyPair, write_kubeconfig
from proxy.sandbox.objects import (
    create_namespace,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import FORWARDER_RULES
from tests.support.control_plane import fresh_name

MACHINE = f"/apis/{GROUP}/v1/namespaces/default/virtualmachines/testvm"
PATIENCE_SECONDS = 45.0


@pytest.fixture(scope="module")
def aggregated(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> Iterator[AggregatedServer]:
    with AggregatedServer(control_plane) as server:
        server.register(plain_api_server.admin)
        yield server


@pytest.fixture
def erin(control_plane: ControlPlane, admin: ApiClient, aggregated: AggregatedServer) -> KeyPair:
    rule = {"apiGroups": [GROUP], "resources": ["virtualmachines/unauthorized"], "verbs": ["get"]}
    grant(admin, "erin-unauthorized", rules=[rule], to={"kind": "User", "name": "erin"})
    return control_plane.clients.issue_client("erin", groups=("dev",), uid="7")


class OwnAccount:
    """The forwarder as a ServiceAccount, whose token is in a kubeconfig."""

    def __init__(self, admin: ApiClient, api_server: ApiServer, directory: Path) -> None:
        self._admin = admin
        self._api_server = api_server
        self.kubeconfig = directory / "own.yaml"
        self.namespace = fresh_name("understudy")
        create_namespace(admin, self.namespace)

    def becomes(self, name: str) -> None:
        """Be a new account with the rights that the forwarder needs."""
        create_service_account(self._admin, self.namespace, name)
        subject = {"kind": "ServiceAccount", "namespace": self.namespace, "name": name}
        grant(self._admin, f"{self.namespace}-{name}", rules=FORWARDER_RULES, to=subject)
        write_kubeconfig(
            self.kubeconfig,
            url=self._api_server.url,
            ca_pem=self._api_server.ca_pem,
            credential=token_for(self._admin, self.namespace, name),
        )

    def is_deleted(self, name: str) -> None:
        """Make every token of an account worthless."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}"
        self._admin.call("DELETE", path)


@pytest.fixture
def own_account(admin: ApiClient, plain_api_server: ApiServer, tmp_path: Path) -> OwnAccount:
    account = OwnAccount(admin, plain_api_server, tmp_path)
    account.becomes("first")
    return account


def unused_address() -> str:
    """Return where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"https://127.0.0.1:{probe.getsockname()[1]}"


def test_an_aggregated_servers_own_401_arrives_as_401(
    control_plane: ControlPlane, plain_api_server: ApiServer, erin: KeyPair
) -> None:
    native = plain_api_server.client(erin).request("GET", f"{MACHINE}/unauthorized")
    with ProxyProcess(control_plane, plain_api_server) as understudy:
        answers = [
            understudy.client(erin).request("GET", f"{MACHINE}/unauthorized") for _ in range(5)
        ]
        still_there = understudy.client(erin).request("GET", "/version")

    for response in answers:
        assert response.status == native.status == 401
        assert response.header("WWW-Authenticate") == 'Basic realm="console"'
        assert response.header("Content-Type") == native.header("Content-Type")
        ours, theirs = response.json(), native.json()
        assert ours["received"]["remote"]["x-remote-user"] == ["erin"]
        assert {**ours, "received": None} == {**theirs, "received": None}
    assert still_there.status == 200


@pytest.mark.timeout(120)
def test_a_verdict_on_us_is_a_503_until_our_credential_is_replaced(
    control_plane: ControlPlane, plain_api_server: ApiServer, own_account: OwnAccount
) -> None:
    """The first endpoint is dead all the while, and nobody notices that either."""
    upstream = {
        "kubeconfig": str(own_account.kubeconfig),
        "endpoints": [unused_address(), plain_api_server.url],
        "credentialRefresh": "1h",
    }
    alice = control_plane.clients.issue_client("alice")
    with ProxyProcess(
        control_plane, plain_api_server, settings={"upstream": upstream}
    ) as understudy:
        client = understudy.client(alice)
        assert statuses_until(client, 200)[-1].status == 200

        own_account.is_deleted("first")
        refused = statuses_until(client, 503)
        own_account.becomes("second")
        accepted = statuses_until(client, 200)

    assert {response.status for response in refused} == {200, 503}
    assert {response.status for response in accepted} <= {200, 503}
    assert refused[-1].json()["message"] == (
        "the API server does not accept the proxy's own credential"
    )
    assert refused[-1].header("Retry-After") == "1"
    assert refused[-1].header("WWW-Authenticate") is None


def statuses_until(client: ApiClient, wanted: int) -> list[APIResponse]:
    """Ask until an answer has the wanted status; the API server remembers tokens for a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    answers: list[APIResponse] = []
    while not answers or answers[-1].status != wanted:
        assert time.monotonic() < deadline, answers[-1]
        answers.append(client.request("GET", "/version"))
        time.sleep(0.05)
    return answers


def test_a_dead_endpoint_costs_nobody_a_request(
    control_plane: ControlPlane, plain_api_server: ApiServer, own_account: OwnAccount
) -> None:
    upstream = {
        "kubeconfig": str(own_account.kubeconfig),
        "endpoints": [unused_address(), plain_api_server.url],
    }
    alice: Credential = control_plane.clients.issue_client("alice")
    with ProxyProcess(
        control_plane, plain_api_server, settings={"upstream": upstream}
    ) as understudy:
        statuses_until(understudy.client(alice), 200)

        answers = [understudy.client(alice).request("GET", "/version") for _ in range(20)]

    assert {response.status for response in answers} == {200}
