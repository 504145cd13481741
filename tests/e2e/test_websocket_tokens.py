"""A token among the subprotocols of a WebSocket: the API server's own table, at both doors."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from proxy.sandbox.api_client import ApiClient, client_context
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.objects import (
    create_node,
    create_pod,
    create_service_account,
    token_for,
)
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.web_socket import UpgradeRejected, WebSocket
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, Rights, may

PREFIX = "base64url.bearer.authorization.k8s.io."
CHOSEN = "chosen.example.com"
# The server's own upgrade of a watch asks for one, as a browser would send it.
ORIGIN = ("Origin", "https://127.0.0.1")


@dataclass(frozen=True, slots=True)
class Robot:
    """A service account that may watch the one pod of its namespace."""

    namespace: str
    token: str

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods?watch=1"


@pytest.fixture
def robot(
    admin: ApiClient,
    namespace: str,
    plain_api_server: ApiServer,
    native_api_server: ApiServer,
) -> Robot:
    name, node = fresh_name("robot"), fresh_name("node")
    create_service_account(admin, namespace, name)
    create_node(admin, node)
    create_pod(admin, namespace, "hello", node=node)
    token = token_for(admin, namespace, name)
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    caller = Caller(f"system:serviceaccount:{namespace}:{name}", token, subject)
    rights = Rights(plain_api_server, native_api_server)
    rights.grant(caller, may("watch"), namespace=namespace)
    return Robot(namespace, token.value)


def encoded(token: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(token).decode().rstrip("=")


def watch(
    door: ApiServer | ProxyProcess,
    robot: Robot,
    lines: Sequence[str],
    headers: Sequence[tuple[str, str]] = (),
) -> tuple[int, str | None]:
    """Open a watch and return how the upgrade was answered, with the protocol that was chosen."""
    first, *others = lines
    more = [ORIGIN, *(("Sec-WebSocket-Protocol", line) for line in others), *headers]
    socket = WebSocket(
        f"{door.url}{robot.pods}",
        context=client_context(door.ca_pem),
        protocol=first,
        headers=more,
    )
    try:
        with socket as opened:
            event = json.loads(opened.receive())
            assert event["object"]["metadata"]["name"] == "hello"
            return 101, opened.protocol
    except UpgradeRejected as refused:
        return refused.status, None


def test_a_browser_watches_with_its_token_among_the_protocols(
    robot: Robot, understudy: ProxyProcess, native_api_server: ApiServer
) -> None:
    token = encoded(robot.token.encode())
    tables = [
        [f"{token}, {CHOSEN}"],
        [f"{CHOSEN},{token}"],
        [token, CHOSEN],
        [CHOSEN, token],
    ]

    ours = [watch(understudy, robot, lines) for lines in tables]
    native = [watch(native_api_server, robot, lines) for lines in tables]

    assert ours == native == [(101, CHOSEN)] * len(tables)


def test_what_is_no_token_is_a_401_at_both_doors(
    robot: Robot, understudy: ProxyProcess, native_api_server: ApiServer
) -> None:
    token = encoded(robot.token.encode())
    tables = {
        "the only protocol": [token],
        "twice": [f"{token}, {token}, {CHOSEN}"],
        "twice over lines": [f"{token}, {CHOSEN}", token],
        "padded": [f"{PREFIX}dA==, {CHOSEN}"],
        "not UTF-8": [f"{encoded(bytes([255, 254]))}, {CHOSEN}"],
        "the other alphabet": [f"{PREFIX}dHQ+/w, {CHOSEN}"],
        "an odd length": [f"{token}A, {CHOSEN}" if len(token) % 4 == 0 else f"{PREFIX}d, {CHOSEN}"],
        "nobody's": [f"{encoded(b'nobody')}, {CHOSEN}"],
    }

    ours = {name: watch(understudy, robot, lines)[0] for name, lines in tables.items()}
    native = {name: watch(native_api_server, robot, lines)[0] for name, lines in tables.items()}

    assert ours == native == dict.fromkeys(tables, 401)


def test_an_empty_token_is_nobody_which_is_anonymous_only_natively(
    robot: Robot, understudy: ProxyProcess, native_api_server: ApiServer
) -> None:
    lines = [f"{PREFIX}, {CHOSEN}"]

    assert watch(native_api_server, robot, lines)[0] == 403
    assert watch(understudy, robot, lines)[0] == 401


@pytest.mark.parametrize("header", ["Bearer nonsense", "Basic YTpi"])
def test_a_bad_header_does_not_spoil_a_good_protocol(
    robot: Robot, understudy: ProxyProcess, native_api_server: ApiServer, header: str
) -> None:
    lines = [f"{encoded(robot.token.encode())}, {CHOSEN}"]
    headers = [("Authorization", header)]

    ours, native = (watch(door, robot, lines, headers) for door in (understudy, native_api_server))

    assert ours == native == (101, CHOSEN)


def test_without_an_upgrade_a_protocol_is_no_credential(
    robot: Robot, understudy: ProxyProcess
) -> None:
    protocol = ("Sec-WebSocket-Protocol", f"{encoded(robot.token.encode())}, {CHOSEN}")

    response = understudy.client().request("GET", robot.pods, headers=[protocol])

    assert response.status == 401
