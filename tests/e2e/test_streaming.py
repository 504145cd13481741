"""Exec, attach, copy, logs and port-forward: what holds without us holds through the proxy."""

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import grant
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support import streaming
from tests.support.control_plane import fresh_name
from tests.support.kubectl import STREAMING_CLIENTS, Kubectl, streaming_kubectl
from tests.support.kubelet import FakeKubelet, running_kubelet
from tests.support.sizes import sized, soak

# The first test may have to build the fake kubelet or to fetch the old kubectl.
pytestmark = pytest.mark.timeout(300)

MEBIBYTE = 1024 * 1024
EVERYTHING_WITH_PODS = [
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/exec", "pods/attach", "pods/log", "pods/portforward"],
        "verbs": ["*"],
    }
]


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane, native_api_server: ApiServer) -> Iterator[FakeKubelet]:
    with running_kubelet(control_plane, native_api_server, node="native-node") as running:
        yield running


@pytest.fixture(scope="module", params=["direct", "proxied"])
def kubeconfig(
    request: pytest.FixtureRequest, control_plane: ControlPlane, native_api_server: ApiServer
) -> Path:
    """A user who may do everything with pods, before the API server or before the proxy."""
    name = fresh_name("streamer")
    subject = {"kind": "User", "name": name}
    grant(native_api_server.admin, name, rules=EVERYTHING_WITH_PODS, to=subject)
    door: ApiServer | ProxyProcess = native_api_server
    if request.param == "proxied":
        door = request.getfixturevalue("understudy")
    return door.kubeconfig_for(control_plane.clients.issue_client(name), name=name)


@pytest.fixture(params=STREAMING_CLIENTS)
def kubectl(
    request: pytest.FixtureRequest, control_plane: ControlPlane, kubeconfig: Path
) -> Kubectl:
    return streaming_kubectl(request.param, control_plane.binaries.kubectl, kubeconfig)


@pytest.fixture
def pod(kubelet: FakeKubelet) -> str:
    return kubelet.create_pod()


def test_exec_reports_output_and_exit_code(kubectl: Kubectl, pod: str) -> None:
    streaming.check_exec_reports_output_and_exit_code(kubectl, pod)


@soak
def test_exec_carries_standard_input(kubectl: Kubectl, pod: str) -> None:
    size = sized(5 * MEBIBYTE, full=100 * MEBIBYTE)
    streaming.check_exec_carries_standard_input(kubectl, pod, size)


@soak
def test_copy_keeps_a_file_both_ways(kubectl: Kubectl, pod: str, tmp_path: Path) -> None:
    size = sized(5 * MEBIBYTE, full=200 * MEBIBYTE)
    streaming.check_copy_keeps_a_file_both_ways(kubectl, pod, size=size, directory=tmp_path)


def test_terminal_follows_its_size(kubectl: Kubectl, pod: str) -> None:
    streaming.check_terminal_follows_its_size(kubectl, pod)


def test_attach_echoes(kubectl: Kubectl, pod: str) -> None:
    streaming.check_attach_echoes(kubectl, pod)


def test_logs_follow_until_the_container_ends(kubectl: Kubectl, pod: str) -> None:
    streaming.check_logs_follow_until_the_container_ends(kubectl, pod)


def test_port_forward_serves_requests_at_once(kubectl: Kubectl, pod: str) -> None:
    streaming.check_port_forward_serves_requests_at_once(kubectl, pod, requests=50, at_once=50)


def test_a_command_ends_when_its_client_leaves(kubectl: Kubectl, pod: str) -> None:
    streaming.check_a_command_ends_when_its_client_leaves(kubectl, pod)


def test_an_unknown_program_is_reported_as_a_shell_would(kubectl: Kubectl, pod: str) -> None:
    assert kubectl.run("exec", pod, "--", "no-such-program").returncode == 127


def test_the_fake_kubelet_runs_nothing_for_a_stranger(
    kubelet: FakeKubelet, native_api_server: ApiServer
) -> None:
    node = native_api_server.admin.call("GET", f"/api/v1/nodes/{kubelet.node}")
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    trusting = ssl.create_default_context(cadata=native_api_server.ca_pem.decode())

    with pytest.raises((urllib.error.URLError, OSError), match="certificate required"):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/exec/a/b/c?command=id", context=trusting)


def test_a_stopped_kubelet_leaves_no_command_behind(
    control_plane: ControlPlane, native_api_server: ApiServer
) -> None:
    kubeconfig = native_api_server.kubeconfig_for(control_plane.admin, name="stopping")
    kubectl = Kubectl(control_plane.binaries.kubectl, kubeconfig)

    with ExitStack() as clients:
        with running_kubelet(control_plane, native_api_server, node="stopping-node") as kubelet:
            command = ("exec", kubelet.create_pod(), "--", "sh", "-c", "sleep 600 & echo $!; wait")
            background = clients.enter_context(kubectl.started(*command)).line()
            assert streaming.is_running(background)

        # The client is still there, so nothing but the kubelet's end can have ended it.
        streaming.wait_until(
            lambda: not streaming.is_running(background), "a command survived its kubelet"
        )
