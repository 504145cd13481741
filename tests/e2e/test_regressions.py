"""Regressions that the real API server itself shows; the others are in scenarios/regressions."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.processes import start_child
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import REVIEWER_NAME, forwarder_name
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, complete_event, running_understudy
from tests.support.control_plane import who_am_i
from tests.support.impersonation import Caller, Rights, as_user, may, may_impersonate, poll

ORIGINAL_USER = "original-user.kube-understudy.io"


@pytest.fixture(scope="module")
def understudy(
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Understudy]:
    directory = tmp_path_factory.mktemp("regressions")
    with running_understudy(control_plane, plain_api_server, directory) as running:
        yield running


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


@pytest.fixture
def rights(plain_api_server: ApiServer) -> Rights:
    return Rights(plain_api_server)


def test_01_naming_our_headers_in_connection_does_not_make_a_caller_the_proxy(
    understudy: Understudy, cast: Cast
) -> None:
    caller = cast.user(groups=("dev",))
    named = [
        ("Connection", ""),
        ("Connection", "Impersonate-User, impersonate-group"),
        ("Connection", "AUTHORIZATION"),
    ]

    seen = who_am_i(understudy.client(caller.credential), *named)

    assert seen["username"] == caller.name
    assert seen["groups"] == ["dev", "system:authenticated"]


@pytest.fixture
def impersonator(cast: Cast, rights: Rights) -> Caller:
    caller = cast.user("impersonator", groups=("robots",), uid="7")
    rights.grant(caller, may_impersonate("users"), may_impersonate("userextras/a"))
    return caller


def test_10_the_api_server_is_told_the_original_user_where_that_is_wanted(
    understudy: Understudy, impersonator: Caller, plain_api_server: ApiServer
) -> None:
    client = understudy.client(impersonator.credential)
    wanted = as_user("bob", extra=[("a", "b")])
    without = who_am_i(client, *wanted)
    file = understudy.process.config_file
    upstream = yaml.safe_load(file.read_text())["upstream"]

    understudy.reload_section("upstream", {**upstream, "originalUserExtra": True})
    try:
        told = who_am_i(client, *wanted)
        as_itself = who_am_i(client)
        response = client.request("GET", "/version", headers=wanted)
    finally:
        understudy.reload_section("upstream", {**upstream})

    assert without["extra"] == {"a": ["b"]}
    assert told["extra"] == {
        "a": ["b"],
        f"{ORIGINAL_USER}/name": [impersonator.name],
        f"{ORIGINAL_USER}/uid": ["7"],
        f"{ORIGINAL_USER}/groups": ["robots", "system:authenticated"],
    }
    assert ORIGINAL_USER not in str(as_itself)
    event = complete_event(plain_api_server.audit_log, response.header("Audit-Id") or "")
    assert event["impersonatedUser"]["extra"] == told["extra"]


def test_10_a_client_cannot_name_an_original_user(
    understudy: Understudy, impersonator: Caller
) -> None:
    wanted = as_user("bob", extra=[(f"{ORIGINAL_USER}%2Fname", "root")])

    response = understudy.client(impersonator.credential).request("GET", "/version", headers=wanted)

    assert (response.status, response.json()["reason"]) == (400, "BadRequest")


@pytest.fixture
def forgetful(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ProxyProcess]:
    """A proxy that has lost every line that says whom it speaks for."""
    with ProxyProcess(control_plane, plain_api_server) as running:
        running.process.stop()
        running.process = start_child(
            [sys.executable, "-m", "tests.mutation.forgetful_proxy", running.config_file],
            log_file=running.log_file,
            directory=Path(__file__).parents[2],
        )
        try:
            yield running
        finally:
            running.process.stop()


@pytest.fixture(params=[REVIEWER_NAME, forwarder_name()])
def own_client(
    request: pytest.FixtureRequest,
    forgetful: ProxyProcess,
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
) -> ApiClient:
    """One of the proxy's own identities without the proxy, and without anybody to speak for."""
    return plain_api_server.client(control_plane.clients.issue_client(request.param))


def listable_resources(admin: ApiClient) -> list[str]:
    """Return the path of every resource that the cluster can list."""
    groups = admin.call("GET", "/apis")["groups"]
    roots = ["/api/v1", *(f"/apis/{one['preferredVersion']['groupVersion']}" for one in groups)]
    return [
        f"{root}/{resource['name']}"
        for root in roots
        for resource in admin.call("GET", root)["resources"]
        if "list" in resource["verbs"]
    ]


def test_15_our_own_credential_alone_can_read_nothing(
    own_client: ApiClient, admin: ApiClient
) -> None:
    resources = listable_resources(admin)
    with own_client.connect() as connection:
        statuses = {
            path: connection.request("GET", path).status for path in [*resources, "/metrics"]
        }

    assert len(resources) > 40
    assert statuses == dict.fromkeys(statuses, 403)


RULES = {
    REVIEWER_NAME: {("create", "tokenreviews"), ("create", "subjectaccessreviews")},
    forwarder_name(): {
        ("impersonate", "users"),
        ("impersonate", "groups"),
        ("impersonate", "serviceaccounts"),
        ("impersonate", "uids"),
        *(
            ("impersonate", f"userextras/authentication.kubernetes.io/{key}")
            for key in ("credential-id", "node-name", "node-uid", "pod-name", "pod-uid")
        ),
    },
}


@pytest.mark.parametrize("name", RULES)
def test_15_our_own_credential_alone_can_only_review_or_impersonate(
    name: str,
    forgetful: ProxyProcess,
    control_plane: ControlPlane,
    plain_api_server: ApiServer,
) -> None:
    client = plain_api_server.client(control_plane.clients.issue_client(name))
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = client.call("POST", path, body=review)["status"]["resourceRules"]

    allowed = {
        (verb, resource)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }

    assert allowed == RULES[name] | {
        # Everybody's: questions about oneself.
        ("create", "selfsubjectreviews"),
        ("create", "selfsubjectaccessreviews"),
        ("create", "selfsubjectrulesreviews"),
    }


def test_15_a_proxy_that_forgets_whom_it_speaks_for_is_denied(
    forgetful: ProxyProcess, cast: Cast, rights: Rights, namespace: str
) -> None:
    caller = cast.user()
    rights.grant(caller, may("get", "list", "create", resources=["pods", "secrets", "configmaps"]))
    client = forgetful.client(caller.credential)
    poll(lambda: is_forwarded(client), "the proxy forwards nothing")
    names = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken"}}
    at = f"/api/v1/namespaces/{namespace}"

    answers = [
        client.request("GET", "/api/v1/secrets"),
        client.request("GET", f"{at}/pods"),
        client.request("POST", f"{at}/configmaps", body=names),
    ]

    assert [response.status for response in answers] == [500, 500, 500]
    assert [response.json()["message"] for response in answers] == [
        f"the proxy's own identity cannot {right}"
        for right in (
            'list resource "secrets" in API group "" at the cluster scope',
            f'list resource "pods" in API group "" in the namespace "{namespace}"',
            f'create resource "configmaps" in API group "" in the namespace "{namespace}"',
        )
    ]


def is_forwarded(client: ApiClient) -> bool:
    try:
        return client.request("GET", "/version").status == 200
    except OSError:
        return False  # it is only just starting
