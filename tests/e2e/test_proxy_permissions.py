"""Rights of our own that are missing or too many, at the real API server, and who is told what."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.objects import grant
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import forwarder_name
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, Rights, may_impersonate, poll

RIGHT = (
    'impersonate resource "userextras/team" in API group "authentication.k8s.io" '
    "at the cluster scope"
)


@pytest.fixture(scope="module")
def admin_url() -> Iterator[str]:
    with ReservedPort() as port:
        yield f"http://{LOOPBACK}:{port.number}"


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane, plain_api_server: ApiServer, admin_url: str
) -> Iterator[ProxyProcess]:
    settings = {"admin": {"address": admin_url.removeprefix("http://")}}
    with ProxyProcess(control_plane, plain_api_server, settings=settings) as running:
        anybody = running.client(control_plane.clients.issue_client(fresh_name("anybody")))
        poll(lambda: anybody.request("GET", "/version").status == 200, "nobody is served")
        yield running


@pytest.fixture
def caller(control_plane: ControlPlane, admin: ApiClient, plain_api_server: ApiServer) -> Caller:
    """May act as anybody with an extra, which the proxy without its component may not."""
    caller = Cast(control_plane, admin).user()
    Rights(plain_api_server).grant(
        caller, may_impersonate("users"), may_impersonate("userextras/team")
    )
    return caller


def page(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "*/*",
    ],
)
@pytest.mark.parametrize("pretty", ["", "?pretty=1"], ids=["compact", "pretty"])
def test_a_right_that_we_lack_is_our_error_in_whatever_encoding_it_is_told(
    understudy: ProxyProcess, caller: Caller, admin_url: str, accept: str, pretty: str
) -> None:
    wanted = [("Impersonate-User", "bob"), ("Impersonate-Extra-Team", "blue"), ("Accept", accept)]
    client = understudy.client(caller.credential)

    answers = [
        client.request("GET", f"{path}{pretty}", headers=wanted)
        for path in ("/version", "/api/v1/pods", "/api/v1/namespaces/default/pods/x")
    ]
    without = client.request("GET", "/api/v1/secrets", headers=[wanted[0], wanted[2]])

    for response in answers:
        assert (response.status, response.json()["reason"]) == (500, "InternalError")
        assert response.json()["message"] == f"the proxy's own identity cannot {RIGHT}"
        assert forwarder_name() not in response.body.decode()
    # What bob himself may not do is told as it is.
    assert without.status == 403
    assert b'User "bob" cannot' in without.body or b'User \\"bob\\" cannot' in without.body
    told = [json.loads(line) for line in understudy.log_file.read_text().splitlines()]
    assert {line["right"] for line in told if line["message"] == "proxy permission missing"} == {
        RIGHT
    }
    _, metrics = page(f"{admin_url}/metrics")
    assert "understudy_proxy_permission_denials_total 0.0" not in metrics
    assert "understudy_proxy_permission_denials_total" in metrics


def test_a_server_that_tries_the_constrained_modes_first_is_understood(
    control_plane: ControlPlane, native_api_server: ApiServer, caller: Caller
) -> None:
    wanted = [("Impersonate-User", "bob"), ("Impersonate-Extra-Team", "blue")]
    with ProxyProcess(control_plane, native_api_server) as understudy:
        client = understudy.client(caller.credential)
        poll(lambda: client.request("GET", "/version").status == 200, "nobody is served")
        answers = [client.request("GET", "/version", headers=wanted) for _ in range(2)]

    for response in answers:
        assert response.status == 500
        message = response.json()["message"]
        assert message.startswith("the proxy's own identity cannot impersonate ")


def test_the_usual_identities_have_what_they_need_and_nothing_else(
    understudy: ProxyProcess, admin_url: str
) -> None:
    poll(lambda: len(rights_lines(understudy)) == 2, "our rights were not checked")

    assert {line["message"] for line in rights_lines(understudy)} == {"proxy permissions verified"}
    status, ready = page(f"{admin_url}/readyz?verbose")
    assert (status, "[+]canary ok" in ready) == (200, True)
    _, metrics = page(f"{admin_url}/metrics")
    for identity in ("reviewer", "forwarder"):
        expiry = f'understudy_proxy_credential_expiry_seconds{{identity="{identity}"}} '
        (line,) = (line for line in metrics.splitlines() if line.startswith(expiry))
        assert float(line.removeprefix(expiry)) > datetime.now(UTC).timestamp()


def rights_lines(understudy: ProxyProcess) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in understudy.log_file.read_text().splitlines()]
    return [line for line in lines if line["message"].startswith("proxy permissions")]


def test_an_administrator_in_our_place_is_warned_of(
    control_plane: ControlPlane, plain_api_server: ApiServer, admin: ApiClient, tmp_path: Path
) -> None:
    """The forwarder is in system:masters; the reviewer may do nothing but read secrets."""
    nosy = fresh_name("nosy")
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    grant(admin, nosy, rules=rules, to={"kind": "User", "name": nosy})
    reviewer = control_plane.clients.issue_client(nosy)
    files = {
        name: write_kubeconfig(
            tmp_path / name,
            url=plain_api_server.url,
            ca_pem=plain_api_server.ca_pem,
            credential=credential,
        )
        for name, credential in (("forwarder", control_plane.admin), ("reviewer", reviewer))
    }
    upstream = {
        "kubeconfig": str(files["forwarder"]),
        "reviewer": {"kubeconfig": str(files["reviewer"])},
    }

    with ProxyProcess(
        control_plane, plain_api_server, settings={"upstream": upstream}
    ) as understudy:
        poll(lambda: len(rights_lines(understudy)) == 3, "our rights were not checked")
        found = {
            (line["identity"], line["message"]): line["rights"] for line in rights_lines(understudy)
        }

    assert found["reviewer", "proxy permissions missing"] == [
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ]
    assert found["reviewer", "proxy permissions excessive"] == ["get secrets"]
    dangerous = found["forwarder", "proxy permissions excessive"]
    assert dangerous[:3] == ["member of system:masters", "* *.*", "get secrets"]


@pytest.mark.timeout(120)
def test_an_authorizer_that_allows_everything_makes_us_not_ready(
    control_plane: ControlPlane, admin_url: str
) -> None:
    options = ApiServerOptions(
        name=fresh_name("all-allowed"), authorization=("--authorization-mode=AlwaysAllow",)
    )
    with closing(control_plane.start_api_server(options)) as server, ReservedPort() as port:
        url = f"http://{LOOPBACK}:{port.number}"
        settings = {"admin": {"address": f"{LOOPBACK}:{port.number}"}}
        with ProxyProcess(control_plane, server, settings=settings):
            poll(lambda: "allows an unknown user" in page(f"{url}/readyz")[1], "the canary lives")
            status, ready = page(f"{url}/readyz")

    assert status == 503
    assert "[-]canary failed: the authorizer allows an unknown user an unknown verb" in ready


@pytest.mark.timeout(90)
def test_missing_review_permission_is_named_and_the_api_server_is_reachable(
    control_plane: ControlPlane, plain_api_server: ApiServer, admin: ApiClient, tmp_path: Path
) -> None:
    name = fresh_name("reviewer")
    group = "authorization.k8s.io"
    reviewer = write_kubeconfig(
        tmp_path / "reviewer",
        url=plain_api_server.url,
        ca_pem=plain_api_server.ca_pem,
        credential=control_plane.clients.issue_client(name),
    )
    with ReservedPort() as port:
        address = f"{LOOPBACK}:{port.number}"
        settings: dict[str, dict[str, Any]] = {
            "admin": {"address": address},
            "upstream": {"reviewer": {"kubeconfig": str(reviewer)}},
        }
        with ProxyProcess(control_plane, plain_api_server, settings=settings):
            url = f"http://{address}"
            missing = "[-]proxy-permissions failed: the reviewer cannot create subjectaccessreviews"
            poll(lambda: missing in page(f"{url}/readyz")[1], "the permission is not named")
            status, denied = page(f"{url}/readyz?verbose")
            reachable = "understudy_upstream_reachable 1.0" in page(f"{url}/metrics")[1]
            rules = [
                {
                    "apiGroups": [group, "authentication.k8s.io"],
                    "resources": ["subjectaccessreviews", "tokenreviews"],
                    "verbs": ["create"],
                }
            ]
            grant(admin, name, rules=rules, to={"kind": "User", "name": name})
            poll(lambda: page(f"{url}/readyz")[0] == 200, "does not recover")

    assert (status, reachable) == (503, True)
    assert "manifests/base/reviewer.yaml" in denied
    assert "[+]upstream ok" in denied
