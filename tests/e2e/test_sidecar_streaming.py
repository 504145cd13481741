"""Exec, logs and port-forward through `understudy act`, the proxy and the real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.proxy_process import ProxyProcess
from tests.e2e.kep.cast import Cast
from tests.support import streaming
from tests.support.impersonation import DISCOVERY, Rights, may, may_be, may_do, may_visit
from tests.support.kubectl import STREAMING_CLIENTS, Kubectl, streaming_kubectl
from tests.support.kubelet import FakeKubelet, running_kubelet
from tests.support.sidecar_process import HopProcess

# The first test may have to build the fake kubelet or to fetch the old kubectl.
pytestmark = pytest.mark.timeout(300)

NAMESPACE = "acting"
STREAMS = ("pods", "pods/exec", "pods/log", "pods/portforward")


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[FakeKubelet]:
    with running_kubelet(
        control_plane, plain_api_server, node="acting-node", namespace=NAMESPACE
    ) as running:
        yield running


@pytest.fixture(scope="module")
def deputy_kubeconfig(
    control_plane: ControlPlane, understudy: ProxyProcess, kubelet: FakeKubelet
) -> Iterator[Path]:
    """A service account's token, at a hop that acts as alice, who may stream."""
    verbs = ("get", "create")
    cast, rights = Cast(control_plane, kubelet.server.admin), Rights(kubelet.server)
    alice, deputy = cast.user("alice"), cast.service_account()
    rights.grant(alice, may(*verbs, resources=STREAMS), namespace=NAMESPACE)
    rights.grant(
        deputy, may_be("user-info", "users", alice.name), may_visit("user-info", *DISCOVERY)
    )
    rights.grant(deputy, may_do("user-info", *verbs, resources=STREAMS), namespace=NAMESPACE)
    with HopProcess(
        f"--as={alice.name}", server=understudy.url, ca_pem=understudy.ca_pem
    ) as running:
        yield running.kubeconfig_for(deputy.credential, namespace=NAMESPACE)


@pytest.fixture(params=STREAMING_CLIENTS)
def kubectl(
    request: pytest.FixtureRequest, control_plane: ControlPlane, deputy_kubeconfig: Path
) -> Kubectl:
    return streaming_kubectl(request.param, control_plane.binaries.kubectl, deputy_kubeconfig)


@pytest.fixture
def pod(kubelet: FakeKubelet) -> str:
    return kubelet.create_pod()


def test_exec_reports_output_and_exit_code(kubectl: Kubectl, pod: str) -> None:
    streaming.check_exec_reports_output_and_exit_code(kubectl, pod)


def test_exec_carries_standard_input(kubectl: Kubectl, pod: str) -> None:
    streaming.check_exec_carries_standard_input(kubectl, pod, streaming.MEBIBYTE)


def test_logs_follow_until_the_container_ends(kubectl: Kubectl, pod: str) -> None:
    streaming.check_logs_follow_until_the_container_ends(kubectl, pod)


def test_port_forward_serves_requests_at_once(kubectl: Kubectl, pod: str) -> None:
    streaming.check_port_forward_serves_requests_at_once(kubectl, pod, requests=10, at_once=10)
