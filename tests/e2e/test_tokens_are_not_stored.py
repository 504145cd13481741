"""A proxy that has many secrets, says all it can, and meets every kind of trouble: none is told."""

import base64
import json
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient, APIResponse, client_context
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import (
    create_namespace,
    create_service_account,
    grant,
    token_for,
)
from proxy.sandbox.processes import LOOPBACK, ReservedPort, start_child
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import FORWARDER_RULES, REVIEWER_RULES
from proxy.sandbox.web_socket import UpgradeRejected, WebSocket
from tests.e2e.kep.understudy import complete_event
from tests.support.canaries import Canary, found, new_canary
from tests.support.control_plane import fresh_name
from tests.support.failing_proxy import FAILURES, REVIEW_FAILS_FOR
from tests.support.impersonation import as_user, poll

PREFIX = "base64url.bearer.authorization.k8s.io."
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(120)


class Stage:
    """A proxy with an identity of its own, its files, and its secrets."""

    def __init__(self, admin: ApiClient, server: ApiServer, directory: Path) -> None:
        self._admin = admin
        self._server = server
        self.kubeconfig = directory / "own.yaml"
        self.audit_log = directory / "audit.log"
        self.own = self._account(rules=(*REVIEWER_RULES, *FORWARDER_RULES))
        self.robot = self._account()
        self.write_kubeconfig(self.own.value)

    def write_kubeconfig(self, token: str, *, url: str | None = None, more: str = "") -> None:
        """Write who the proxy is."""
        ca_data = base64.b64encode(self._server.ca_pem).decode()
        cluster = {"server": url or self._server.url, "certificate-authority-data": ca_data}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(document) + more)

    def _account(self, *, rules: tuple[dict[str, list[str]], ...] = ()) -> BearerToken:
        namespace, name = fresh_name("namespace"), fresh_name("account")
        create_namespace(self._admin, namespace)
        create_service_account(self._admin, namespace, name)
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
        grant(self._admin, f"{namespace}-{name}", rules=rules, to=subject)
        return token_for(self._admin, namespace, name)


def signature(name: str, token: BearerToken) -> Canary:
    """Return the part of a token that only its owner has."""
    return Canary(name, token.value.rpartition(".")[2])


@pytest.fixture
def stage(admin: ApiClient, plain_api_server: ApiServer, tmp_path: Path) -> Stage:
    return Stage(admin, plain_api_server, tmp_path)


@pytest.fixture
def admin_port() -> Iterator[int]:
    with ReservedPort() as port:
        yield port.number


@pytest.fixture(params=["json", "text"])
def understudy(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    stage: Stage,
    admin_port: int,
) -> Iterator[ProxyProcess]:
    """A proxy with bugs, at the level that tells the most."""
    settings: dict[str, dict[str, object]] = {
        "log": {"level": "debug", "format": request.param},
        "audit": {"log": {"path": str(stage.audit_log)}},
        "admin": {"address": f"{LOOPBACK}:{admin_port}"},
        "serving": {"certificateRefresh": "200ms"},
        "upstream": {"kubeconfig": str(stage.kubeconfig), "credentialRefresh": "200ms"},
    }
    with ProxyProcess(control_plane, plain_api_server, settings=settings) as running:
        running.process.stop()
        running.process = start_child(
            [sys.executable, "-m", "tests.support.failing_proxy", running.config_file],
            log_file=running.log_file,
            directory=ROOT,
        )
        try:
            poll(lambda: serves(running, stage.robot), "nobody is served")
            yield running
        finally:
            running.process.stop()


def serves(understudy: ProxyProcess, token: BearerToken) -> bool:
    with suppress(OSError):
        return understudy.client(token).request("GET", "/version").status == 200
    return False


def use(
    understudy: ProxyProcess, token: str, *, header: Canary, query: Canary
) -> list[APIResponse]:
    """Send a token in every way that a client may, with other secrets beside it."""
    nobody = understudy.client()
    bearer = ("Authorization", f"Bearer {token}")
    beside = [("Cookie", f"session={header.value}"), ("Proxy-Authorization", header.value)]
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    ways: list[list[tuple[str, str | bytes]]] = [
        [bearer],
        [bearer, *as_user("bob")],
        [bearer, ("Impersonate-Foo", header.value)],
        [bearer, ("Expect", header.value)],
        [bearer, bearer],
        [bearer, ("Bad Name", header.value)],
        [bearer, ("X-Long", header.value * 30_000)],
        [("Authorization", f"Basic {token}")],
        [("Authorization", f"Bearer {token}\xff".encode("latin-1"))],
        [("Sec-WebSocket-Protocol", PREFIX + encoded)],
    ]
    ways += [[bearer, ("X-Fail", failure)] for failure in FAILURES]
    target = f"/api/v1/pods?access_token={query.value}"
    answers = [nobody.request("GET", target, headers=[*way, *beside]) for way in ways]
    # What the API server cannot read it repeats to its client, query and all.
    unreadable = f"/api/v1/watch?access_token={query.value}"
    answers.append(nobody.request("GET", unreadable, headers=[bearer, *beside]))
    body = {"kind": "Secret", "apiVersion": "v1", "stringData": {"a": header.value}}
    secrets = "/api/v1/namespaces/default/secrets"
    answers.append(nobody.request("POST", secrets, headers=[bearer, *beside], body=body))
    return answers


def use_by_web_socket(understudy: ProxyProcess, token: str) -> list[str]:
    """Send a token among the protocols of a WebSocket, rightly and wrongly."""
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    said = []
    for protocols in (f"{PREFIX}{encoded}, a", PREFIX + encoded, f"{PREFIX}{encoded}=, a"):
        socket = WebSocket(
            f"{understudy.url}/api/v1/pods?watch=1",
            context=client_context(understudy.ca_pem),
            protocol=protocols,
            headers=[("Origin", understudy.url)],
        )
        try:
            with socket as opened:
                said.append(str(opened.receive()))
        except UpgradeRejected as refused:
            said.append(f"{refused.status} {refused.body!r}")
    return said


def scrape(port: int, canary: Canary) -> str:
    """Return every page of the admin port, as whoever sends it a secret sees them."""
    pages = []
    for page in ("/metrics", "/livez?verbose", "/readyz?verbose", f"/nowhere?{canary.value}"):
        request = Request(f"http://{LOOPBACK}:{port}{page}")
        request.add_header("Authorization", f"Bearer {canary.value}")
        try:
            with urlopen(request, timeout=10) as answer:
                pages.append(answer.read().decode())
        except HTTPError as refused:
            pages.append(refused.read().decode())
    for line in (f"X: {canary.value * 500}", f"Bad Name: {canary.value}", f"\0{canary.value}"):
        head = f"GET /metrics HTTP/1.1\r\nHost: a\r\n{line}\r\nConnection: close\r\n\r\n"
        with socket.create_connection((LOOPBACK, port), 10) as plain:
            plain.sendall(head.encode())
            with suppress(ConnectionError):
                while piece := plain.recv(65536):
                    pages.append(piece.decode("latin-1"))
    return "\n".join(pages)


def trouble_with_files(understudy: ProxyProcess, stage: Stage, canary: Canary) -> None:
    """Put secrets into files that cannot be used, and see each of them noticed."""
    log = understudy.log_file

    def wait_for(event: str, count: int) -> None:
        poll(lambda: log.read_text().count(event) >= count, f"{event} is not in the log")

    bad_url = f"https://user:{canary.value}@{LOOPBACK}"
    stage.write_kubeconfig(stage.own.value, more=f"users: [{canary.value}")
    wait_for("it is not YAML", 1)
    stage.write_kubeconfig(f"{canary.value}\x01")
    wait_for("not printable", 1)
    stage.write_kubeconfig(stage.own.value, url=bad_url)
    wait_for("must be https", 1)
    # The API server does not accept it, so it is never used.
    stage.write_kubeconfig(canary.value)
    wait_for("SelfSubjectReview returned no user name", 1)
    key = Path(yaml.safe_load(understudy.config_file.read_text())["serving"]["keyFile"])
    key.write_text(f"-----BEGIN PRIVATE KEY-----\n{canary.value}\n-----END PRIVATE KEY-----\n")
    wait_for("certificates not reloaded", 1)
    document = yaml.safe_load(understudy.config_file.read_text())
    document["upstream"] |= {"token": canary.value, "endpoints": [bad_url]}
    understudy.config_file.write_text(yaml.safe_dump(document))
    understudy.process.send_signal(signal.SIGHUP)
    wait_for("config not reloaded", 1)


def test_no_secret_is_told_anywhere(
    understudy: ProxyProcess, stage: Stage, admin_port: int, plain_api_server: ApiServer
) -> None:
    guess, failing = new_canary("a guess"), new_canary("a token under review")
    header, query = new_canary("a header"), new_canary("a query")
    scraper, file = new_canary("a scraper's token"), new_canary("a file")

    answers: list[object] = []
    for token in (stage.robot.value, guess.value, f"{failing.value}-{REVIEW_FAILS_FOR}"):
        answers += use(understudy, token, header=header, query=query)
        answers += use_by_web_socket(understudy, token)
    last = understudy.client(stage.robot).request("GET", "/version").header("Audit-Id") or ""
    complete_event(stage.audit_log, last)
    complete_event(plain_api_server.audit_log, last)
    admin_pages = scrape(admin_port, scraper)
    trouble_with_files(understudy, stage, file)

    log = understudy.log_file.read_text()
    audit = stage.audit_log.read_text()
    sinks = {
        "the answers": "\n".join(map(repr, answers)),
        "the log": log,
        "the audit log": audit,
        "the admin port": admin_pages,
        "the cluster's audit log": plain_api_server.audit_log.read_text(),
    }
    canaries = [guess, failing, header, scraper, file]
    canaries += [signature("a caller's token", stage.robot), signature("our token", stage.own)]
    assert found(canaries, sinks) == []
    # A target belongs to an audit event, as natively, with its query; it belongs nowhere else.
    assert found([query], {"the log": log, "the admin port": admin_pages}) == []
    assert all(sinks.values())
    # Trouble was really met.
    for event in (
        "request failed",
        "background task failed",
        "uncaught exception in event loop",
        "uncaught exception in thread",
        "uncaught exception in destructor",
    ):
        assert event in log, event
    assert "failing_proxy.py" in log
    assert json.loads(audit.splitlines()[0])["kind"] == "Event"


@pytest.mark.parametrize(
    "told",
    [
        "{0}",
        "token={0}.",
        "{0:.20}",
        "%s",
    ],
)
def test_the_search_would_find_a_secret(told: str) -> None:
    canary = new_canary("a secret")
    encoded = base64.b64encode(f"xy{canary.value}".encode()).decode()
    text = told.format(canary.value) if "{" in told else told % encoded

    assert found([canary], {"a sink": text, "another": "nothing"}) == ["a secret in a sink"]
