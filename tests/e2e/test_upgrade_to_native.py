"""`docs/upgrade-to-native.md`: what it says about servers that have the feature themselves."""

import re
from pathlib import Path

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import who_am_i
from tests.support.impersonation import (
    Rights,
    is_refused_impersonation,
    may_ask_who,
    may_be,
    may_do,
)
from tests.support.sidecar_process import HopProcess

DOCUMENT = (Path(__file__).parents[2] / "docs" / "upgrade-to-native.md").read_text()
PATTERN = re.search(r"/metrics \| grep '([^']+)'", DOCUMENT)


def lines_that_match(server: ApiServer) -> list[str]:
    """Return what the document's command would print."""
    assert PATTERN is not None
    page = server.admin.request("GET", "/metrics").body.decode()
    return [line for line in page.splitlines() if PATTERN[1] in line]


def test_whether_the_feature_is_there_is_seen_in_a_metric(
    plain_api_server: ApiServer, native_api_server: ApiServer
) -> None:
    (off,), (on,) = lines_that_match(plain_api_server), lines_that_match(native_api_server)

    assert off.endswith(" 0")
    assert on.endswith(" 1")


@pytest.fixture
def cast(control_plane: ControlPlane, admin: ApiClient) -> Cast:
    return Cast(control_plane, admin)


def test_a_hop_works_before_a_server_that_has_the_feature_as_before_us(
    cast: Cast, plain_api_server: ApiServer, native_api_server: ApiServer
) -> None:
    node, other = cast.node(), cast.node()
    agent = cast.service_account(node=node)
    mode = "associated-node"
    Rights(plain_api_server, native_api_server).grant(
        agent, may_be(mode, "nodes"), may_do(mode, "list"), may_ask_who(mode)
    )
    pods = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"
    url, ca_pem = native_api_server.url, native_api_server.ca_pem

    with HopProcess(f"--as=system:node:{node}", server=url, ca_pem=ca_pem) as hop:
        acting = who_am_i(hop.client(agent.credential))
        listed = hop.client(agent.credential).request("GET", pods)
    with HopProcess(f"--as=system:node:{other}", server=url, ca_pem=ca_pem) as hop:
        refused = hop.client(agent.credential).request("GET", pods)

    assert acting["username"] == f"system:node:{node}"
    assert listed.status == 200
    assert is_refused_impersonation(refused)
