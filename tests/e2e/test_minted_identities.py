"""Who the real API server sees when shown what `identities.py` and `objects.py` mint."""

import pytest
from cryptography import x509

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import (
    CLIENT_USAGE,
    DAY,
    DEFAULT_VALIDITY,
    SERVER_USAGE,
    BearerToken,
    CertificateAuthority,
    Validity,
)
from proxy.sandbox.objects import (
    create_node,
    create_pod,
    create_service_account,
    token_for,
)
from tests.support.control_plane import fresh_name, who_am_i

PREFIX = "authentication.kubernetes.io/"


def test_a_certificate_user_has_a_uid_and_several_groups(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    alice = control_plane.clients.issue_client("alice", groups=("dev", "ops"), uid="42")

    user = who_am_i(plain_api_server.client(alice))

    assert user["username"] == "alice"
    assert user["uid"] == "42"
    assert user["groups"] == ["dev", "ops", "system:authenticated"]


def test_a_node_certificate_is_a_node(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    user = who_am_i(plain_api_server.client(control_plane.clients.issue_node("node-1")))

    assert user["username"] == "system:node:node-1"
    assert user["groups"] == ["system:nodes", "system:authenticated"]


def test_a_token_user_is_known(control_plane: ControlPlane, plain_api_server: ApiServer) -> None:
    user = who_am_i(plain_api_server.client(control_plane.token_users["alice"].token))

    assert user == {
        "username": "alice",
        "uid": "alice-uid",
        "groups": ["developers", "testers", "system:authenticated"],
    }


def test_a_token_bound_to_a_pod_carries_its_node(
    admin: ApiClient, native_api_server: ApiServer, plain_api_server: ApiServer, namespace: str
) -> None:
    node, account = fresh_name("node"), fresh_name("agent")
    create_node(admin, node)
    create_service_account(admin, namespace, account)
    pod = create_pod(admin, namespace, "agent-pod", node=node, service_account=account)

    token = token_for(admin, namespace, account, pod=pod)

    for server in (native_api_server, plain_api_server):
        user = who_am_i(server.client(token))
        extra = user["extra"]
        assert isinstance(extra, dict)
        assert user["username"] == f"system:serviceaccount:{namespace}:{account}"
        assert extra[f"{PREFIX}node-name"] == [node]
        assert extra[f"{PREFIX}pod-name"] == ["agent-pod"]
        assert extra[f"{PREFIX}pod-uid"] == [pod["metadata"]["uid"]]
        assert len(extra[f"{PREFIX}node-uid"]) == 1


def test_a_token_bound_to_nothing_carries_no_node(
    admin: ApiClient, plain_api_server: ApiServer, namespace: str
) -> None:
    token = token_for(admin, namespace, "default")

    extra = who_am_i(plain_api_server.client(token))["extra"]

    assert isinstance(extra, dict)
    assert list(extra) == [f"{PREFIX}credential-id"]


def test_a_token_for_another_audience_is_refused(
    admin: ApiClient, plain_api_server: ApiServer, namespace: str
) -> None:
    token = token_for(admin, namespace, "default", audiences=["elsewhere"])

    assert plain_api_server.client(token).request("GET", "/api").status == 401


@pytest.mark.parametrize(
    ("validity", "usages"),
    [
        (Validity(start_offset=-2 * DAY, duration=DAY), (CLIENT_USAGE,)),
        (Validity(start_offset=DAY), (CLIENT_USAGE,)),
        (DEFAULT_VALIDITY, (SERVER_USAGE,)),
    ],
    ids=["expired", "not yet valid", "for servers only"],
)
def test_a_certificate_that_does_not_hold_is_refused(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    validity: Validity,
    usages: tuple[x509.ObjectIdentifier, ...],
) -> None:
    alice = control_plane.clients.issue_client("alice", validity=validity, usages=usages)

    assert plain_api_server.client(alice).request("GET", "/api").status == 401


def test_strangers_are_refused(plain_api_server: ApiServer) -> None:
    certificate = CertificateAuthority("stranger").issue_client("alice")

    for credential in (certificate, BearerToken("guessed")):
        assert plain_api_server.client(credential).request("GET", "/api").status == 401


def test_nobody_is_anonymous(plain_api_server: ApiServer) -> None:
    response = plain_api_server.client().request("GET", "/api/v1/pods")

    assert response.status == 403
    assert 'User "system:anonymous" cannot list resource "pods"' in response.json()["message"]


def test_only_the_front_proxy_speaks_for_others(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> None:
    headers = [("X-Remote-User", "bob"), ("X-Remote-Uid", "7"), ("X-Remote-Group", "dev")]
    front_proxy = control_plane.front_proxies.issue_client("front-proxy-client")
    alice = control_plane.clients.issue_client("alice")

    spoken_for = who_am_i(plain_api_server.client(front_proxy), *headers)
    pretended = who_am_i(plain_api_server.client(alice), *headers)

    assert (spoken_for["username"], spoken_for["uid"]) == ("bob", "7")
    assert spoken_for["groups"] == ["dev", "system:authenticated"]
    assert pretended["username"] == "alice"
