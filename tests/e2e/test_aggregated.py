"""The fake aggregated API server behind the real one's aggregator."""

import json
import ssl
from collections.abc import Iterator

import pytest

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import CONSOLE_PROTOCOL, GROUP
from proxy.sandbox.api_client import ApiClient, APIResponse, client_context
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import CertificateAuthority, Credential, KeyPair
from proxy.sandbox.objects import grant
from proxy.sandbox.web_socket import UpgradeRejected, WebSocket

MACHINE = f"/apis/{GROUP}/v1/namespaces/default/virtualmachines/testvm"


@pytest.fixture(scope="module")
def aggregated(
    control_plane: ControlPlane, native_api_server: ApiServer
) -> Iterator[AggregatedServer]:
    with AggregatedServer(control_plane) as server:
        server.register(native_api_server.admin)
        yield server


@pytest.fixture
def erin(
    aggregated: AggregatedServer, control_plane: ControlPlane, native_api_server: ApiServer
) -> KeyPair:
    resources = ["virtualmachines/console", "virtualmachines/unauthorized"]
    rule = {"apiGroups": [GROUP], "resources": resources, "verbs": ["get"]}
    to = {"kind": "User", "name": "erin"}
    grant(native_api_server.admin, "erin-console", rules=[rule], to=to)
    return control_plane.clients.issue_client("erin", groups=("dev", "ops"), uid="7")


def test_a_console_shows_the_identity_the_aggregator_passed_on(
    erin: KeyPair, native_api_server: ApiServer
) -> None:
    response = native_api_server.client(erin).request("GET", f"{MACHINE}/console")

    received = response.json()
    assert response.status == 200
    assert received["path"] == f"{MACHINE}/console"
    assert received["remote"]["x-remote-user"] == ["erin"]
    assert received["remote"]["x-remote-uid"] == ["7"]
    assert received["remote"]["x-remote-group"] == ["dev", "ops", "system:authenticated"]
    assert "authorization" not in received["headerNames"]


def test_a_console_without_permission_is_refused_before_it_is_reached(
    aggregated: AggregatedServer, control_plane: ControlPlane, native_api_server: ApiServer
) -> None:
    stranger = control_plane.clients.issue_client("stranger")

    response = native_api_server.client(stranger).request("GET", f"{MACHINE}/console")

    assert response.status == 403
    assert "virtualmachines/console" in response.json()["message"]


def test_an_upgraded_console_echoes_after_saying_who_is_there(
    erin: KeyPair, native_api_server: ApiServer
) -> None:
    context = client_context(native_api_server.ca_pem, erin)
    url = f"{native_api_server.url}{MACHINE}/console"

    with WebSocket(url, context=context, protocol=CONSOLE_PROTOCOL) as console:
        greeting = json.loads(console.receive())
        console.send("hello")
        text = console.receive()
        console.send(bytes(70_000))
        binary = console.receive()

    assert console.protocol == CONSOLE_PROTOCOL
    assert greeting["remote"]["x-remote-user"] == ["erin"]
    assert text == "hello"
    assert binary == bytes(70_000)


def test_an_upgrade_without_permission_is_refused(
    aggregated: AggregatedServer, control_plane: ControlPlane, native_api_server: ApiServer
) -> None:
    stranger = control_plane.clients.issue_client("stranger")
    context = client_context(native_api_server.ca_pem, stranger)
    url = f"{native_api_server.url}{MACHINE}/console"

    with (
        pytest.raises(UpgradeRejected) as refused,
        WebSocket(url, context=context, protocol=CONSOLE_PROTOCOL),
    ):
        pytest.fail("a stranger got a console")

    assert refused.value.status == 403
    assert b"virtualmachines/console" in refused.value.body


def test_a_refusal_of_its_own_comes_through_as_it_is(
    erin: KeyPair, native_api_server: ApiServer
) -> None:
    response = native_api_server.client(erin).request("GET", f"{MACHINE}/unauthorized")

    assert response.status == 401
    assert response.header("WWW-Authenticate") == 'Basic realm="console"'
    assert response.json()["received"]["remote"]["x-remote-user"] == ["erin"]


def test_its_resources_are_discovered(
    aggregated: AggregatedServer, native_api_server: ApiServer
) -> None:
    resources = native_api_server.admin.call("GET", f"/apis/{GROUP}/v1")["resources"]

    assert "virtualmachines/console" in [resource["name"] for resource in resources]


def test_the_aggregator_may_say_who_is_asking(
    aggregated: AggregatedServer, control_plane: ControlPlane
) -> None:
    response = ask_as_admin(
        aggregated, control_plane, control_plane.front_proxies.issue_client("front-proxy-client")
    )

    assert response.json()["remote"] == {"x-remote-user": ["admin"]}


@pytest.mark.parametrize("shown", ["no certificate", "a stranger's certificate"])
def test_nobody_else_may_say_who_is_asking(
    shown: str, aggregated: AggregatedServer, control_plane: ControlPlane
) -> None:
    stranger = CertificateAuthority("strangers").issue_client("front-proxy-client")

    # TLS 1.3 tells a refused client late, so it may see an alert or just the end.
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        ask_as_admin(aggregated, control_plane, None if shown == "no certificate" else stranger)


def ask_as_admin(
    aggregated: AggregatedServer, control_plane: ControlPlane, credential: Credential
) -> APIResponse:
    """Ask the server directly, past the API server, and claim to be someone."""
    url = f"https://localhost:{aggregated.port}"
    client = ApiClient(url, ca_pem=control_plane.servers.certificate_pem, credential=credential)
    return client.request("GET", f"{MACHINE}/console", headers=[("X-Remote-User", "admin")])
