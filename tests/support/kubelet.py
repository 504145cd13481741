"""The fake kubelet as a Node of a running API server.

    with running_kubelet(control_plane, server) as kubelet:
        pod = kubelet.create_pod()
        Kubectl(program, kubeconfig).run("exec", pod, "--", "echo", "hello")

Its source is in `fake_kubelet/`; containers run programs of this machine, see there.
"""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import create_namespace, create_node, create_pod
from proxy.sandbox.processes import ChildProcess, start_child
from tests.support.build_once import built_by_go
from tests.support.control_plane import fresh_name
from tests.support.streaming import wait_until

SOURCE = Path(__file__).with_name("fake_kubelet")


@dataclass(frozen=True, slots=True)
class FakeKubelet:
    """A registered Node; all its pods are in one namespace."""

    server: ApiServer
    node: str
    namespace: str
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def create_pod(self) -> str:
        """Create a running Pod with a container of its own, and return its name."""
        name = f"{self.node}-pod-{next(self._numbers)}"
        create_pod(self.server.admin, self.namespace, name, node=self.node)
        return name


@contextmanager
def running_kubelet(
    control_plane: ControlPlane,
    server: ApiServer,
    *,
    node: str = "kubelet-node",
    namespace: str = "default",
) -> Iterator[FakeKubelet]:
    """Start a fake kubelet, register it, and stop it with all its commands on leaving."""
    program = fake_kubelet_program()
    directory = control_plane.directory / fresh_name(node)
    directory.mkdir()
    process = _start(program, control_plane, directory)
    with ExitStack() as pods, ExitStack() as running:
        running.callback(process.stop)
        port = _announced_port(process, directory / "port")
        create_namespace(server.admin, namespace)
        create_node(server.admin, node, kubelet_port=port)
        pods.callback(_delete_pods, server.admin, namespace, node)
        yield FakeKubelet(server, node, namespace)


def _delete_pods(admin: ApiClient, namespace: str, node: str) -> None:
    """Delete a node's pods: another test may expect the namespace to be empty."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    query = f"gracePeriodSeconds=0&fieldSelector=spec.nodeName%3D{node}"
    admin.call("DELETE", f"{pods}?{query}")


def fake_kubelet_program() -> Path:
    """Return the program, built once for its sources; skip or fail the test if Go cannot."""
    return built_by_go("fake-kubelet", SOURCE)


def _start(program: Path, control_plane: ControlPlane, directory: Path) -> ChildProcess:
    serving = control_plane.servers.issue_server("127.0.0.1")
    certificate, key = serving.write(directory, "serving")
    client_authority = directory / "clients.crt"
    client_authority.write_bytes(control_plane.clients.certificate_pem)
    return start_child(
        [
            program,
            f"--certificate={certificate}",
            f"--key={key}",
            f"--client-authority={client_authority}",
            f"--directory={directory}",
            f"--port-file={directory / 'port'}",
        ],
        log_file=directory / "fake-kubelet.log",
    )


def _announced_port(process: ChildProcess, port_file: Path) -> int:
    def is_announced() -> bool:
        process.ensure_running()
        return port_file.exists()

    wait_until(is_announced, "the fake kubelet does not listen")
    return int(port_file.read_text())
