"""The admin port before a real API server: its words, its readiness, and who sees its metrics."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient, client_context
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import create_service_account, grant, token_for
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.control_plane import fresh_name

pytestmark = pytest.mark.timeout(240)

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
PATIENCE_SECONDS = 60.0
HEADERS = ("Content-Type", "X-Content-Type-Options", "Cache-Control")


@dataclass(frozen=True)
class Page:
    status: int
    text: str
    headers: tuple[str | None, ...]

    @property
    def shape(self) -> str:
        """The text without the names of checks but for ping, and each kind of line once."""
        named = re.sub(r"(?m)^(\[.\])(?!ping )\S+", r"\1NAME", self.text)
        lines = re.sub(r"failed: (?!reason withheld).*", "failed: reason withheld", named)
        return "\n".join(dict.fromkeys(lines.split("\n")))


def until(condition: Callable[[], bool], complaint: str) -> float:
    """Wait until the condition holds, and return how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < PATIENCE_SECONDS, complaint
        time.sleep(0.02)
    return time.monotonic() - started


class Admin:
    """The admin port of a proxy."""

    def __init__(self, url: str, ca_pem: bytes | None = None) -> None:
        self._url = url
        self._context = client_context(ca_pem) if ca_pem is not None else None

    def get(self, path: str, token: str | None = None) -> Page:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = Request(self._url + path, headers=headers)
        try:
            answer = urlopen(request, timeout=30, context=self._context)
        except HTTPError as error:
            answer = error
        with answer:
            told = tuple(answer.headers[name] for name in HEADERS)
            return Page(answer.status, answer.read().decode(), told)


def native_page(server: ApiServer, path: str) -> Page:
    response = server.admin.request("GET", path)
    return Page(
        response.status, response.body.decode(), tuple(response.header(name) for name in HEADERS)
    )


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[ApiServer]:
    """An API server that may be stopped, and takes a moment to go."""
    options = ApiServerOptions(
        name=fresh_name("admin"), extra_flags=("--shutdown-delay-duration=4s",)
    )
    with closing(control_plane.start_api_server(options)) as server:
        yield server


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ReservedPort() as port:
        yield port.number


@pytest.fixture(scope="module")
def understudy(control_plane: ControlPlane, server: ApiServer, port: int) -> Iterator[ProxyProcess]:
    settings: dict[str, dict[str, Any]] = {
        "admin": {"address": f"{LOOPBACK}:{port}"},
        "serving": {"shutdown": {"delay": "6s", "watchWindow": "0s", "gracePeriod": "8s"}},
    }
    with ProxyProcess(control_plane, server, settings=settings) as understudy:
        yield understudy


@pytest.fixture(scope="module")
def admin_port(understudy: ProxyProcess, port: int) -> Admin:
    admin = Admin(f"http://{LOOPBACK}:{port}")
    until(lambda: admin.get("/readyz").status == 200, "it never gets ready")
    return admin


@pytest.mark.parametrize("page", ["livez", "readyz", "healthz"])
@pytest.mark.parametrize(
    "rest",
    [
        "",
        "?verbose",
        "?verbose=0",
        "?exclude=ping",
        "?verbose&exclude=ping",
        "?verbose&exclude=ping&exclude=nobody",
        "?verbose&exclude=zz&exclude=a%22b&exclude=%00&exclude=ping,log",
        "/ping",
        "/ping?verbose",
        "/nobody",
        "/",
        "/ping/",
    ],
)
def test_health_is_told_in_the_native_words(
    admin_port: Admin, server: ApiServer, page: str, rest: str
) -> None:
    ours, native = admin_port.get(f"/{page}{rest}"), native_page(server, f"/{page}{rest}")

    assert ours.status == native.status
    if ours.status == 200:
        assert ours.shape == native.shape
        # A page of one check leaves the guessing to the client, natively; ours never does.
        assert (ours.headers[0], ours.headers[2]) == (native.headers[0], native.headers[2])
        assert ours.headers[1] == "nosniff"


def test_upstream_down_and_up_again(
    admin_port: Admin, understudy: ProxyProcess, server: ApiServer, control_plane: ControlPlane
) -> None:
    client = understudy.client(control_plane.clients.issue_client("watcher"))
    until(lambda: client.request("GET", "/version").status == 200, "nobody is served")

    server.process.send_signal(signal.SIGTERM)
    until(lambda: native_page(server, "/readyz").status != 200, "the server does not go")
    failing, one = native_page(server, "/readyz"), native_page(server, "/readyz/shutdown")
    server.stop()
    took = until(lambda: admin_port.get("/readyz").status == 503, "it stays ready")

    assert took < 20
    down = admin_port.get("/readyz")
    assert "[-]upstream failed: the API server does not answer\n" in down.text
    # A failure is told in the native words; its status says that it may pass.
    assert (failing.status, down.shape) == (500, failing.shape)
    assert one.text.startswith("internal server error: ")
    upstream = admin_port.get("/readyz/upstream")
    assert (upstream.status, upstream.headers[0]) == (503, one.headers[0])
    assert upstream.text == "internal server error: the API server does not answer\n"
    assert admin_port.get("/readyz?exclude=upstream").status == 200
    for _ in range(3):
        response = client.request("GET", "/version")
        assert (response.status, response.json()["reason"]) == (503, "ServiceUnavailable")
        assert (admin_port.get("/livez").status, admin_port.get("/healthz").status) == (200, 200)
    assert "understudy_upstream_reachable 0.0" in admin_port.get("/metrics").text

    pid = understudy.process.pid
    server.launch()
    server.wait_until_ready()
    until(lambda: admin_port.get("/readyz").status == 200, "it does not get ready again")

    until(lambda: client.request("GET", "/version").status == 200, "nobody is served again")
    assert understudy.process.pid == pid
    understudy.process.ensure_running()


def scraper(admin: ApiClient, namespace: str, *rules: dict[str, list[str]]) -> BearerToken:
    name = fresh_name("scraper")
    create_service_account(admin, namespace, name)
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    grant(admin, f"{namespace}-{name}", rules=rules, to=subject)
    return token_for(admin, namespace, name)


def test_metrics_are_for_those_whom_the_api_server_allows(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    admin: ApiClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    (manifest,) = re.findall(
        r"<!-- manifest: scraper -->\n```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
    good = scraper(admin, namespace, *yaml.safe_load(manifest)["rules"])
    poor = scraper(admin, namespace, {"nonResourceURLs": ["/livez"], "verbs": ["get"]})
    certificate, key = control_plane.servers.issue_server(LOOPBACK).write(tmp_path, "admin")
    with ReservedPort() as port:
        section = {
            "address": f"{LOOPBACK}:{port.number}",
            "certificateFile": str(certificate),
            "keyFile": str(key),
            "metricsRequireAuthorization": True,
        }
        with ProxyProcess(control_plane, plain_api_server, settings={"admin": section}) as proxy:
            page = Admin(f"https://{LOOPBACK}:{port.number}", proxy.ca_pem)
            until(lambda: page.get("/readyz").status == 200, "it never gets ready")
            until(lambda: page.get("/metrics", good.value).status == 200, "no grant is enough")

            assert "understudy_requests_total" in page.get("/metrics", good.value).text
            assert page.get("/metrics", poor.value).status == 403
            assert page.get("/metrics", good.value[:-8] + "xxxxxxxx").status == 401
            assert page.get("/metrics").status == 401
            assert page.get("/livez").status == 200
            told = proxy.log_file.read_text()
    assert good.value not in told
    assert poor.value not in told


def test_sigterm_is_told_at_once(admin_port: Admin, understudy: ProxyProcess) -> None:
    """Comes last: nobody is served after it."""
    assert admin_port.get("/readyz").status == 200

    understudy.process.send_signal(signal.SIGTERM)
    took = until(lambda: admin_port.get("/readyz").status == 503, "it stays ready")

    assert took < 1
    assert "[-]shutdown failed: draining\n" in admin_port.get("/readyz").text
    assert admin_port.get("/livez").status == 200
    lines = [json.loads(line) for line in understudy.log_file.read_text().splitlines()]
    assert {"API server not reached", "API server reached again"} <= {
        line["message"] for line in lines
    }
