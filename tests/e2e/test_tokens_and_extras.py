"""`upstream.extras` before the real API server: what it sees of a caller, and what it is asked."""

from collections.abc import Iterator

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import who_am_i
from tests.support.impersonation import (
    Rights,
    as_user,
    is_refused_impersonation,
    may_ask_who,
    may_be,
    message_of,
    poll,
)

PREFIX = "authentication.kubernetes.io/"
CREDENTIAL_ID, NODE_NAME = f"{PREFIX}credential-id", f"{PREFIX}node-name"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@pytest.fixture(scope="module")
def understudy(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ProxyProcess]:
    extras = {CREDENTIAL_ID: "drop", "acme.io/secret": "refuse"}
    settings = {"upstream": {"extras": extras}}
    with ProxyProcess(control_plane, plain_api_server, settings=settings) as running:
        yield running


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


def test_a_dropped_extra_does_not_arrive_and_the_others_do(
    understudy: ProxyProcess, plain_api_server: ApiServer, cast: Cast
) -> None:
    robot = cast.service_account(node=cast.node())
    client = understudy.client(robot.credential)
    poll(lambda: client.request("GET", "/version").status == 200, "nobody is served")

    through = who_am_i(client)
    direct = who_am_i(plain_api_server.client(robot.credential))

    extra = direct["extra"]
    assert isinstance(extra, dict)
    assert {CREDENTIAL_ID, NODE_NAME} <= set(extra)
    del extra[CREDENTIAL_ID]
    assert through == direct


def test_an_impersonated_extra_needs_its_permission_before_it_is_dropped_or_refused(
    understudy: ProxyProcess, plain_api_server: ApiServer, cast: Cast
) -> None:
    caller, rights = cast.user(), Rights(plain_api_server)
    rights.grant(caller, may_be("user-info", "users", "bob"), may_ask_who("user-info"))
    client = understudy.client(caller.credential)
    poll(lambda: who_am_i(client, *as_user("bob"))["username"] == "bob", "nobody is served")
    dropped = as_user("bob", extra=[(CREDENTIAL_ID.replace("/", "%2f"), "X")])
    refused = as_user("bob", extra=[("acme.io%2fsecret", "X")])

    before = [
        client.request("POST", WHO, headers=wanted, body=REVIEW) for wanted in (dropped, refused)
    ]
    for key in (CREDENTIAL_ID, "acme.io/secret"):
        rights.grant(caller, may_be("user-info", f"userextras/{key}", "X"))
    after = [
        client.request("POST", WHO, headers=wanted, body=REVIEW) for wanted in (dropped, refused)
    ]

    assert all(is_refused_impersonation(response) for response in before)
    assert [response.status for response in after] == [201, 403]
    assert "extra" not in after[0].json()["status"]["userInfo"]
    message = "an identity with the extra acme.io/secret is not forwarded to this API server"
    assert message_of(after[1]) == message
