"""Troubleshooting: an authorizer of one's own that refuses, and an API server that is away."""

import pytest

from proxy.sandbox.api_server import ApiServer
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy
from tests.e2e.kep.webhook import REASON, Webhook
from tests.support.impersonation import Caller, as_user, message_of, poll

pytestmark = pytest.mark.timeout(90)  # an API server of its own is started and stopped

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def caller(cast: Cast) -> Caller:
    return cast.user("impersonator")


def test_an_external_authorizer_that_refuses_is_quoted_to_the_client(
    asking: Understudy, caller: Caller
) -> None:
    client = asking.client(caller.credential)

    response = client.request("GET", PODS, headers=as_user("someUser"))

    assert response.status == 403
    assert message_of(response) == (
        f'pods is forbidden: User "{caller.name}" cannot impersonate-on:user-info:list resource '
        f'"pods" in API group "" in the namespace "default": default: {REASON}'
    )


def test_the_log_and_the_metrics_show_why_an_impersonation_is_refused(
    asking: Understudy, caller: Caller
) -> None:
    denied = ("apiserver_impersonation_authorization_attempts_total", "user-info", "denied")
    before = asking.counts()[denied]

    asking.client(caller.credential).request("GET", PODS, headers=as_user("someUser"))

    assert asking.counts()[denied] == before + 1
    poll(
        lambda: any(caller.name in line and REASON in line for line in asking.log().splitlines()),
        "the log does not say why",
    )


def test_without_the_api_server_nobody_is_let_through_and_afterwards_all_is_well(
    asking: Understudy, asking_server: ApiServer, webhook: Webhook, caller: Caller
) -> None:
    webhook.permit(caller.name, lambda _: True)
    client = asking.client(caller.credential)
    assert client.request("GET", PODS, headers=as_user("known")).status == 200

    asking_server.stop()
    known, unknown = (
        client.request("GET", PODS, headers=as_user(name)) for name in ("known", "unknown")
    )
    asking_server.launch()
    asking_server.wait_until_ready()

    assert (known.status, unknown.status) == (503, 503)
    assert unknown.json()["reason"] == "ServiceUnavailable"
    poll(
        lambda: client.request("GET", PODS, headers=as_user("unknown")).status == 200,
        "impersonation does not come back",
    )
