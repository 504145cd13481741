"""What the cluster itself has written down about us: never alone, and never a token."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.api_client import ApiClient, client_context
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import (
    create_node,
    create_pod,
    create_service_account,
    token_for,
)
from proxy.sandbox.proxy_rbac import ALL_EXTRAS, REVIEWER_NAME, forwarder_name
from proxy.sandbox.web_socket import UpgradeRejected, WebSocket
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.support.audit_events import events_of
from tests.support.control_plane import fresh_name
from tests.support.impersonation import (
    Caller,
    Rights,
    as_node,
    as_user,
    may,
    may_be,
    may_do,
    may_impersonate,
)

FORWARDER_NAME = forwarder_name([ALL_EXTRAS])
REVIEWS = {"tokenreviews", "subjectaccessreviews", "selfsubjectreviews"}
PREFIX = "base64url.bearer.authorization.k8s.io."


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    """A proxy that writes down as much as it can."""
    directory = tmp_path_factory.mktemp("upstream-audit")
    with running_understudy(
        control_plane, plain_api_server, directory, log_level="debug"
    ) as running:
        yield running


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


@pytest.fixture
def caller(control_plane: ControlPlane, admin: ApiClient, rights: Rights) -> Caller:
    caller = Cast(control_plane, admin).user(groups=("dev",))
    rights.grant(
        caller,
        may("get", "list", "watch"),
        may_be("user-info", "users", "bob"),
        may_do("user-info", "list"),
        may_impersonate("groups"),
    )
    return caller


@pytest.fixture
def robot(admin: ApiClient, namespace: str, rights: Rights) -> BearerToken:
    """A service account whose token nobody else ever has: a canary."""
    name, node = fresh_name("canary"), fresh_name("node")
    create_service_account(admin, namespace, name)
    create_node(admin, node)
    create_pod(admin, namespace, "hello", node=node)
    token = token_for(admin, namespace, name)
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    robot = Caller(f"system:serviceaccount:{namespace}:{name}", token, subject)
    rights.grant(robot, may("list", "watch"))
    return token


def events_after(audit_log: Path, offset: int) -> list[dict[str, Any]]:
    with audit_log.open("rb") as file:
        file.seek(offset)
        lines = file.read().rpartition(b"\n")[0].splitlines()
    return [json.loads(line) for line in lines]


def visit_everywhere(client: ApiClient) -> str:
    """Send requests of every fate, and return the audit id of the last one."""
    client.request("GET", "/api/v1/pods?watch=1&timeoutSeconds=1")
    named = [("Connection", "Impersonate-User, Impersonate-Group"), ("X-Remote-User", "root")]
    for headers in ((), named, as_user("bob"), as_user("carol"), as_node("n1")):
        for target in ("/api/v1/pods", "/version", "/readyz", "/nowhere", "/api/v1/%2e%2e"):
            client.request("GET", target, headers=headers)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    last = client.request("POST", path, body=review)
    return last.header("Audit-Id") or ""


def by_us(event: dict[str, Any]) -> bool:
    name: str = event["user"].get("username", "")
    return name in (REVIEWER_NAME, FORWARDER_NAME) and event["stage"] != "RequestReceived"


def is_review(event: dict[str, Any]) -> bool:
    return event["verb"] == "create" and event.get("objectRef", {}).get("resource") in REVIEWS


def test_nothing_is_done_upstream_in_our_own_name_but_reviews(
    understudy: Understudy, caller: Caller, robot: BearerToken, plain_api_server: ApiServer
) -> None:
    audit_log = plain_api_server.audit_log
    offset = audit_log.stat().st_size

    last = ""
    for credential in (caller.credential, robot, BearerToken("nonsense"), None):
        last = visit_everywhere(understudy.client(credential)) or last
    # The last one is nobody's, which leaves one event.
    assert events_of(understudy.audit_log, last, count=1)
    ours = [event for event in events_after(audit_log, offset) if by_us(event)]

    alone = [event for event in ours if "impersonatedUser" not in event]
    impersonated = {event["impersonatedUser"]["username"] for event in ours if event not in alone}
    assert [event["requestURI"] for event in alone if not is_review(event)] == []
    assert {caller.name, "bob"} <= impersonated
    assert "carol" not in impersonated
    assert impersonated.isdisjoint((REVIEWER_NAME, FORWARDER_NAME))
    # One asks and the other carries out; neither does the other's work.
    assert {event["user"]["username"] for event in ours if event not in alone} == {FORWARDER_NAME}
    assert {event["user"]["username"] for event in alone} == {REVIEWER_NAME}


def use(token: BearerToken, understudy: Understudy) -> list[str]:
    """Send the token in every way that a client may, and return all that came back."""
    url, context = understudy.process.url, client_context(understudy.process.ca_pem)
    encoded = base64.urlsafe_b64encode(token.value.encode()).decode().rstrip("=")
    nobody, itself = understudy.client(None), understudy.client(token)
    answers = [
        itself.request("GET", "/api/v1/pods"),
        itself.request("GET", "/api/v1/secrets"),
        itself.request("GET", "/api/v1/pods", headers=as_user("bob")),
        itself.request("GET", "/api/v1/pods", headers=[("Impersonate-Foo", "bar")]),
        nobody.request("GET", "/api", headers=[("Authorization", f"Basic {token.value}")]),
        nobody.request("GET", "/api", headers=[("Authorization", f"Bearer {token.value}x")]),
        nobody.request("GET", "/api", headers=[("Authorization", f"Bearer {token.value}")] * 2),
        nobody.request("GET", "/api", headers=[("Sec-WebSocket-Protocol", PREFIX + encoded)]),
    ]
    said = [repr(response) for response in answers]
    for protocols in (f"{PREFIX}{encoded}, a", PREFIX + encoded, f"{PREFIX}{encoded}x, a"):
        socket = WebSocket(
            f"{url}/api/v1/pods?watch=1",
            context=context,
            protocol=protocols,
            headers=[("Origin", url)],
        )
        try:
            with socket as opened:
                said.append(str(opened.receive()))
        except UpgradeRejected as refused:
            said.append(f"{refused.status} {refused.body!r}")
    assert [response.status for response in answers] == [200, 403, 403, 400, 401, 401, 400, 401]
    return said


def test_a_token_is_in_no_sink_of_ours_and_none_of_the_clusters(
    understudy: Understudy, robot: BearerToken, caller: Caller, plain_api_server: ApiServer
) -> None:
    said = use(robot, understudy)
    last = understudy.client(caller.credential).request("GET", "/version").header("Audit-Id") or ""
    complete_event(understudy.audit_log, last)
    complete_event(plain_api_server.audit_log, last)

    sinks = {
        "answers": "\n".join(said),
        "log": understudy.log(),
        "audit": understudy.audit_log.read_text(),
        "metrics": understudy.metrics(),
        "the cluster's log": plain_api_server.log_file.read_text(errors="replace"),
        "the cluster's audit": plain_api_server.audit_log.read_text(),
    }
    signature = robot.value.rpartition(".")[2]
    encoded = base64.urlsafe_b64encode(robot.value.encode()).decode().rstrip("=")
    assert all(sinks.values())
    for secret in (signature, encoded, encoded[-60:]):
        assert [name for name, text in sinks.items() if secret in text] == []
