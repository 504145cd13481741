"""Each choice about an API server has the effect it promises."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import (
    METADATA_POLICY,
    ApiServer,
    ApiServerOptions,
    webhook_authorization,
)
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.objects import apply
from tests.support.control_plane import emulated_version, fresh_name, is_gate_on
from tests.support.streaming import wait_until

# Starting and stopping servers takes long on a busy machine.
pytestmark = pytest.mark.timeout(90)


def test_servers_with_the_same_prefix_share_every_object(
    native_api_server: ApiServer, plain_api_server: ApiServer
) -> None:
    name = fresh_name("shared")

    created = apply(
        native_api_server.admin,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
    )

    seen = plain_api_server.admin.call("GET", f"/api/v1/namespaces/{name}")
    assert seen["metadata"]["uid"] == created["metadata"]["uid"]


@pytest.fixture(scope="module")
def apart(control_plane: ControlPlane) -> Iterator[ApiServer]:
    """A server with a prefix and an audit policy of its own."""
    policy = METADATA_POLICY.replace("Metadata", "RequestResponse")
    options = ApiServerOptions(name=fresh_name("apart"), audit_policy=policy, etcd_prefix="/apart")
    with closing(control_plane.start_api_server(options)) as running:
        yield running


def test_servers_with_different_prefixes_share_nothing_but_etcd(
    apart: ApiServer, admin: ApiClient, namespace: str
) -> None:
    assert apart.admin.request("GET", f"/api/v1/namespaces/{namespace}").status == 404
    assert admin.request("GET", f"/api/v1/namespaces/{namespace}").status == 200


def test_the_gate_is_on_in_the_native_server_and_off_in_the_plain_one(
    native_api_server: ApiServer, plain_api_server: ApiServer
) -> None:
    assert is_gate_on(native_api_server)
    assert not is_gate_on(plain_api_server)


def test_the_gate_can_be_switched_on_in_an_older_version(control_plane: ControlPlane) -> None:
    options = ApiServerOptions(
        name=fresh_name("emulated"),
        emulated_version="1.35",
        constrained_impersonation=True,
        etcd_prefix=f"/{fresh_name('emulated')}",
    )

    with closing(control_plane.start_api_server(options)) as server:
        assert emulated_version(server) == "1.35"
        assert is_gate_on(server)


def test_a_webhook_decides_when_asked_to(control_plane: ControlPlane, tmp_path: Path) -> None:
    alice = control_plane.token_users["alice"].token
    with running_webhook() as (url, asked):
        kubeconfig = write_kubeconfig(tmp_path / "webhook", url=url, ca_pem=b"", credential=None)
        options = ApiServerOptions(
            name=fresh_name("webhook"),
            authorization=webhook_authorization(kubeconfig),
            etcd_prefix="/webhook",
        )
        with closing(control_plane.start_api_server(options)) as server:
            answers = [server.client(alice).request("GET", "/api/v1/pods") for _ in range(2)]

    assert [response.status for response in answers] == [403, 403]
    assert answers[0].json()["message"].endswith("no, says the webhook")
    questions = [spec for spec in asked if spec.get("user") == "alice"]
    assert [spec["resourceAttributes"]["verb"] for spec in questions] == ["list", "list"]


def test_every_request_is_audited_at_metadata_level(plain_api_server: ApiServer) -> None:
    audit_id = fresh_name("audit")

    plain_api_server.admin.request("GET", "/api/v1/nodes?limit=1", headers=[("Audit-ID", audit_id)])

    wait_until(lambda: len(events_of(plain_api_server, audit_id)) == 2, "no audit events")
    received, complete = events_of(plain_api_server, audit_id)
    assert received["stage"] == "RequestReceived"
    assert complete["stage"] == "ResponseComplete"
    assert complete["level"] == "Metadata"
    assert complete["requestURI"] == "/api/v1/nodes?limit=1"
    assert "responseObject" not in complete


def test_the_audit_policy_can_be_chosen(apart: ApiServer) -> None:
    apart.admin.request("GET", "/api/v1/nodes", headers=[("Audit-ID", "bodies")])

    wait_until(lambda: len(events_of(apart, "bodies")) == 2, "no audit events")
    assert events_of(apart, "bodies")[1]["responseObject"]["kind"] == "NodeList"


def events_of(server: ApiServer, audit_id: str) -> list[dict[str, Any]]:
    # The last line may still be on its way.
    lines = server.audit_log.read_text().rpartition("\n")[0].splitlines()
    events = [json.loads(line) for line in lines]
    return [event for event in events if event["auditID"] == audit_id]


@contextmanager
def running_webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Run an authorization webhook that remembers every question and denies it."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(review["spec"])
            status = {"allowed": False, "denied": True, "reason": "no, says the webhook"}
            answer = json.dumps({**review, "status": status}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(answer)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        worker = threading.Thread(target=server.serve_forever, args=(0.02,))
        worker.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            worker.join()
