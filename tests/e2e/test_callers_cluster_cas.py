"""The CAs as the cluster publishes them: read with the rights of the manifests, and followed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import FRONT_PROXY_NAME, ControlPlane
from proxy.sandbox.identities import CertificateAuthority, Credential
from proxy.sandbox.objects import apply
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import REVIEWER_NAME
from tests.support.control_plane import fresh_name, who_am_i
from tests.support.streaming import wait_until

pytestmark = pytest.mark.timeout(120)

COMPONENT = Path(__file__).parents[2] / "manifests" / "components" / "cluster-cas" / "rbac.yaml"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
FROM_CLUSTER: dict[str, dict[str, Any]] = {
    "serving": {"certificateRefresh": "100ms"},
    "authentication": {
        "clientCertificate": {"fromCluster": True},
        "frontProxy": {"fromCluster": True},
    },
}


@pytest.fixture(scope="module")
def api_server(control_plane: ControlPlane) -> Iterator[ApiServer]:
    """One of our own: what is written into its ConfigMap is nobody else's affair."""
    options = ApiServerOptions(name=fresh_name("publishing"), etcd_prefix="/publishing")
    with closing(control_plane.start_api_server(options)) as server:
        yield server


def grant_reading(admin: ApiClient) -> None:
    """Apply the component as it is, but for whom the sandbox knows us by."""
    for document in yaml.safe_load_all(COMPONENT.read_text()):
        if document["kind"] == "RoleBinding":
            document["subjects"] = [{"kind": "User", "name": REVIEWER_NAME}]
        apply(admin, document)


@pytest.fixture(scope="module")
def understudy(control_plane: ControlPlane, api_server: ApiServer) -> Iterator[ProxyProcess]:
    """A proxy that was there before the rights it needs."""
    with ProxyProcess(
        control_plane, api_server, settings=FROM_CLUSTER, components=["all-extras"]
    ) as running:
        alice = control_plane.clients.issue_client("alice")
        early = running.client(alice).request("GET", "/api")
        assert (early.status, early.json()["reason"]) == (503, "ServiceUnavailable")
        assert running.client().request("GET", "/api").status == 401
        assert "403 Forbidden" in running.log_file.read_text()
        grant_reading(api_server.admin)
        wait_until(lambda: is_served(running, alice), "the CA is never read")
        yield running


def is_served(door: ProxyProcess | ApiServer, credential: Credential) -> bool:
    return door.client(credential).request("GET", "/api").status == 200


def test_users_and_front_proxies_are_known_as_natively(
    control_plane: ControlPlane, api_server: ApiServer, understudy: ProxyProcess
) -> None:
    alice = control_plane.clients.issue_client("alice", groups=("a",), uid="7")
    front_proxy = control_plane.front_proxies.issue_client(FRONT_PROXY_NAME)
    words = [
        ("X-Remote-User", "bob"),
        ("X-Remote-Uid", "8"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-k", "v"),
    ]

    for credential, headers in ((alice, []), (front_proxy, words), (alice, words)):
        ours, native = (
            who_am_i(door.client(credential), *headers) for door in (understudy, api_server)
        )
        assert ours == native


def test_strangers_and_front_proxies_of_another_name_are_not(
    control_plane: ControlPlane, api_server: ApiServer, understudy: ProxyProcess
) -> None:
    for credential in (
        CertificateAuthority("stranger").issue_client("alice"),
        control_plane.front_proxies.issue_client("another"),
        control_plane.front_proxies.issue_client(FRONT_PROXY_NAME),
    ):
        for door in (understudy, api_server):
            assert door.client(credential).request("GET", "/api").status == 401


def publish(admin: ApiClient, changes: dict[str, str]) -> None:
    patch = ("Content-Type", "application/merge-patch+json")
    admin.call("PATCH", CONFIG_MAP, headers=[patch], body={"data": changes})


def published(admin: ApiClient, key: str) -> str:
    value: str = admin.call("GET", CONFIG_MAP)["data"][key]
    return value


def test_a_ca_that_is_added_or_taken_away_is_noticed_without_a_restart(
    control_plane: ControlPlane, api_server: ApiServer, understudy: ProxyProcess
) -> None:
    admin = api_server.admin
    before = published(admin, "client-ca-file")
    added = CertificateAuthority("added")
    newcomer, alice = added.issue_client("zoe"), control_plane.clients.issue_client("alice")
    assert not is_served(understudy, newcomer)

    with understudy.client(newcomer).connect() as connection:
        assert connection.request("GET", "/api").status == 401
        publish(admin, {"client-ca-file": before + added.certificate_pem.decode()})
        wait_until(lambda: is_served(understudy, newcomer), "the CA is not noticed")
        assert connection.request("GET", "/api").status == 200, "an open connection as well"

        publish(admin, {"client-ca-file": before})
        wait_until(lambda: not is_served(understudy, newcomer), "it is still believed")
        assert connection.request("GET", "/api").status == 401
    assert is_served(understudy, alice)


def test_our_own_rights_reach_no_other_config_map(
    control_plane: ControlPlane, api_server: ApiServer, understudy: ProxyProcess
) -> None:
    assert understudy.url, "whose rights were granted"
    client = api_server.client(control_plane.clients.issue_client(REVIEWER_NAME))
    config_maps = "/api/v1/namespaces/kube-system/configmaps"

    assert client.request("GET", CONFIG_MAP).status == 200
    assert client.request("DELETE", CONFIG_MAP).status == 403
    for path in (config_maps, f"{config_maps}/other", "/api/v1/configmaps"):
        assert client.request("GET", path).status == 403
