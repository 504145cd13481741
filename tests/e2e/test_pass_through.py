"""`understudy serve` before the real API server: each caller acts there as itself."""

import json
from urllib.parse import quote

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken, Credential
from proxy.sandbox.objects import (
    create_node,
    create_pod,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import forwarder_name
from tests.support.control_plane import fresh_name, who_am_i
from tests.support.kubectl import Kubectl

LIST_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "create"]}]


@pytest.fixture
def certificate_user(control_plane: ControlPlane, admin: ApiClient) -> Credential:
    name = fresh_name("user")
    grant(admin, name, rules=LIST_PODS, to={"kind": "User", "name": name})
    return control_plane.clients.issue_client(name, groups=("dev", "ops"), uid="u-1")


@pytest.fixture
def service_account(admin: ApiClient, namespace: str) -> BearerToken:
    name, node = fresh_name("robot"), fresh_name("node")
    create_service_account(admin, namespace, name)
    create_node(admin, node)
    pod = create_pod(admin, namespace, fresh_name("pod"), node=node, service_account=name)
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    grant(admin, f"{namespace}-{name}", rules=LIST_PODS, to=subject)
    return token_for(admin, namespace, name, pod=pod)


@pytest.mark.parametrize("kind", ["certificate_user", "service_account"])
def test_kubectl_works_for_a_caller_as_itself(
    kind: str,
    request: pytest.FixtureRequest,
    understudy: ProxyProcess,
    control_plane: ControlPlane,
    namespace: str,
    admin: ApiClient,
) -> None:
    create_node(admin, node := fresh_name("node"))
    create_pod(admin, namespace, "hello", node=node)
    kubeconfig = understudy.kubeconfig_for(request.getfixturevalue(kind), name=fresh_name())
    kubectl = Kubectl(control_plane.binaries.kubectl, kubeconfig)

    version = kubectl.run("get", "--raw", "/version")
    pods = kubectl.run("get", "pods", "-n", namespace)
    nodes = kubectl.run("get", "nodes")

    assert json.loads(version.stdout)["gitVersion"] == "v1.37.1", version.stderr
    assert b"hello" in pods.stdout, pods.stderr
    assert nodes.returncode == 1
    assert b"cannot list resource" in nodes.stderr


@pytest.mark.parametrize("kind", ["certificate_user", "service_account"])
def test_the_api_server_sees_the_same_user_with_and_without_the_proxy(
    kind: str,
    request: pytest.FixtureRequest,
    understudy: ProxyProcess,
    plain_api_server: ApiServer,
) -> None:
    credential = request.getfixturevalue(kind)

    through = who_am_i(understudy.client(credential))
    direct = who_am_i(plain_api_server.client(credential))

    assert through == direct


def test_nobody_is_unauthorized(understudy: ProxyProcess, plain_api_server: ApiServer) -> None:
    response = understudy.client().request("GET", "/api/v1/pods")

    assert response.status == 401
    assert response.json()["message"] == "Unauthorized"


def test_a_bad_token_is_unauthorized_in_the_api_servers_own_words(
    understudy: ProxyProcess, plain_api_server: ApiServer
) -> None:
    headers = [("Authorization", "Bearer nonsense")]

    through = understudy.client().request("GET", "/api/v1/pods", headers=headers)
    direct = plain_api_server.client().request("GET", "/api/v1/pods", headers=headers)

    assert (through.status, through.body) == (direct.status, direct.body)


def test_the_clusters_audit_names_the_proxy_and_the_user(
    understudy: ProxyProcess, certificate_user: Credential, plain_api_server: ApiServer
) -> None:
    response = understudy.client(certificate_user).request("GET", "/api/v1/pods")

    assert response.status == 200
    audit_id = response.header("Audit-Id")
    events = [json.loads(line) for line in plain_api_server.audit_log.read_text().splitlines()]
    ours = [event for event in events if event["auditID"] == audit_id]
    complete = [event for event in ours if event["stage"] == "ResponseComplete"]
    assert [event["user"]["username"] for event in complete] == [forwarder_name()]
    assert complete[0]["impersonatedUser"]["groups"] == ["dev", "ops", "system:authenticated"]


def test_a_client_cannot_bring_its_own_identity_headers(
    understudy: ProxyProcess, certificate_user: Credential
) -> None:
    forged = [
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
        ("Connection", "Impersonate-User, Impersonate-Group, Authorization"),
    ]

    seen = who_am_i(understudy.client(certificate_user), *forged)

    assert str(seen["username"]).startswith("user-")
    assert seen["groups"] == ["dev", "ops", "system:authenticated"]


@pytest.mark.parametrize("timeout", ["5", "x", "5d", "1h5", "%ff"])
@pytest.mark.parametrize("token", ["good", "bad"])
def test_a_bad_timeout_is_refused_before_anybody_is_asked_who_they_are(
    timeout: str,
    token: str,
    understudy: ProxyProcess,
    plain_api_server: ApiServer,
    service_account: BearerToken,
) -> None:
    value = service_account.value if token == "good" else "nonsense"
    headers = [("Authorization", f"Bearer {value}")]
    target = f"/api/v1/pods?timeout={timeout}"

    through = understudy.client().request("GET", target, headers=headers)
    direct = plain_api_server.client().request("GET", target, headers=headers)

    assert (through.status, through.body) == (direct.status, direct.body)
    assert direct.status == 400
    assert through.header("X-Content-Type-Options") == direct.header("X-Content-Type-Options")


@pytest.mark.parametrize("selector", ["=x", "==.", "a=b,=c", r"=\,\=", "!=x"])
def test_a_selector_on_an_empty_field_is_judged_and_not_stumbled_over(
    selector: str,
    certificate_user: Credential,
    understudy: ProxyProcess,
    native_api_server: ApiServer,
) -> None:
    headers = [("Impersonate-User", "somebody")]
    target = f"/api/v1/pods?fieldSelector={quote(selector)}"

    through = understudy.client(certificate_user).request("GET", target, headers=headers)
    direct = native_api_server.client(certificate_user).request("GET", target, headers=headers)

    assert (through.status, through.body) == (direct.status, direct.body)
    assert direct.status == 403
