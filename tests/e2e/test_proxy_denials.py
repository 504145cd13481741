"""Whose a denial of the proxy is, with the real API server: its own, or an aggregated server's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.proxy_rbac import ALL_EXTRAS, forwarder_name
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy, running_understudy
from tests.support.impersonation import Caller, Rights, may

FORBIDDEN = f"/apis/{GROUP}/v1/namespaces/default/virtualmachines/testvm/forbidden"
FORWARDER = forwarder_name([ALL_EXTRAS])
MISSING = "understudy_proxy_permission_denials_total"


@pytest.fixture(scope="module")
def aggregated(
    control_plane: ControlPlane, plain_api_server: ApiServer
) -> Iterator[AggregatedServer]:
    with AggregatedServer(control_plane) as server:
        server.register(plain_api_server.admin)
        yield server


@pytest.fixture
def understudy(
    control_plane: ControlPlane, plain_api_server: ApiServer, tmp_path: Path
) -> Iterator[Understudy]:
    with running_understudy(control_plane, plain_api_server, tmp_path) as running:
        yield running


@pytest.fixture
def erin(
    control_plane: ControlPlane,
    admin: ApiClient,
    plain_api_server: ApiServer,
    aggregated: AggregatedServer,
) -> Caller:
    erin = Cast(control_plane, admin).user("erin")
    rule = may("get", resources=["virtualmachines/forbidden"], group=GROUP)
    Rights(plain_api_server).grant(erin, rule)
    return erin


def missing_rights(understudy: Understudy) -> float:
    (line,) = (line for line in understudy.metrics().splitlines() if line.startswith(f"{MISSING} "))
    return float(line.split()[1])


def test_f11_an_aggregated_server_forges_no_missing_right_of_ours(
    understudy: Understudy, plain_api_server: ApiServer, erin: Caller
) -> None:
    target = f"{FORBIDDEN}?user={FORWARDER}"
    native = plain_api_server.client(erin.credential).request("GET", target)

    answers = [understudy.client(erin.credential).request("GET", target) for _ in range(3)]

    assert native.status == 403
    for response in answers:
        assert (response.status, response.body) == (403, native.body)
    assert missing_rights(understudy) == 0
    assert "proxy permission missing" not in understudy.log()


def test_f11_a_right_that_is_really_missing_is_our_error_at_an_aggregated_server_too(
    understudy: Understudy, admin: ApiClient, erin: Caller
) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/sandbox-{FORWARDER}"
    binding = admin.call("GET", path)
    admin.call("DELETE", path)
    try:
        client = understudy.client(erin.credential)
        while (response := client.request("GET", f"{FORBIDDEN}?user=nobody")).status == 403:
            pass  # the API server still remembers the grant
    finally:
        metadata = {"name": binding["metadata"]["name"]}
        fresh = {key: binding[key] for key in ("roleRef", "subjects")}
        collection, _, _ = path.rpartition("/")
        admin.call("POST", collection, body={"metadata": metadata, **fresh})

    assert response.status == 500
    message = response.json()["message"]
    assert message.startswith("the proxy's own identity cannot impersonate resource ")
    assert FORWARDER not in message
    assert missing_rights(understudy) >= 1
    assert "proxy permission missing" in understudy.log()
