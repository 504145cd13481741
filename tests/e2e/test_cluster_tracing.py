"""Whose traces the API server continues: those of whom it trusts, and that is never us.

The aggregated server behind it is told the trace that a request has become part of.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from proxy.sandbox.aggregated.api import AggregatedServer
from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import write_kubeconfig
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import FORWARDER_RULES
from tests.e2e.kep.cast import Cast
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller, Rights, may, poll

TRUSTED = "system:monitoring"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01")
CONSOLE = f"/apis/{GROUP}/v1/namespaces/default/virtualmachines/vm/console"
# Nobody collects the spans; the trace is continued or not all the same.
CONFIGURATION = """\
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: 127.0.0.1:1
samplingRatePerMillion: 1000000
"""


@pytest.fixture(scope="module")
def server(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """An API server that traces."""
    file = tmp_path_factory.mktemp("tracing") / "tracing.yaml"
    file.write_text(CONFIGURATION)
    flag = f"--tracing-config-file={file}"
    options = ApiServerOptions(name=fresh_name("tracing"), extra_flags=(flag,))
    with (
        closing(control_plane.start_api_server(options)) as server,
        AggregatedServer(control_plane) as aggregated,
    ):
        aggregated.register(server.admin)
        yield server


@pytest.fixture(scope="module")
def monitor(server: ApiServer, control_plane: ControlPlane) -> Caller:
    """Somebody whose traces the API server continues."""
    caller = Cast(control_plane, server.admin).user(groups=(TRUSTED,))
    consoles = may("get", resources=["virtualmachines/console"], group=GROUP)
    Rights(server).grant(caller, consoles)
    return caller


def trace_of(client: ApiClient) -> str:
    """Return the trace in which a request that belongs to TRACE is carried on."""
    # Our own rights may take the API server a moment longer.
    poll(lambda: client.request("GET", CONSOLE).status == 200, "nobody is served")
    traceparent: str = client.call("GET", CONSOLE, headers=[TRACEPARENT])["traceparent"]
    return traceparent.split("-")[1]


def test_the_trace_of_a_trusted_caller_is_continued(server: ApiServer, monitor: Caller) -> None:
    assert trace_of(server.client(monitor.credential)) == TRACE


def test_through_us_it_is_not(
    server: ApiServer, monitor: Caller, control_plane: ControlPlane
) -> None:
    with ProxyProcess(control_plane, server) as proxy:
        assert trace_of(proxy.client(monitor.credential)) != TRACE


def test_because_it_is_we_who_are_judged(
    server: ApiServer, monitor: Caller, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """So this is what tells that the header itself comes through."""
    ourselves = Cast(control_plane, server.admin).user("trusted-proxy", groups=(TRUSTED,))
    Rights(server).grant(ourselves, *FORWARDER_RULES)
    upstream = write_kubeconfig(
        tmp_path / "kubeconfig",
        url=server.url,
        ca_pem=server.ca_pem,
        credential=ourselves.credential,
    )
    settings = {"upstream": {"kubeconfig": str(upstream)}}

    with ProxyProcess(control_plane, server, settings=settings) as proxy:
        assert trace_of(proxy.client(monitor.credential)) == TRACE
