"""A fake aggregated API server: the virtual machine consoles of Story 2 of the KEP.

    with AggregatedServer(control_plane) as aggregated:
        aggregated.register(native.admin, plain.admin)

It is registered as `v1.subresources.kubevirt.io`. Every response contains the user info that the
API server's aggregator has sent. The program itself is `server.py`.
"""

import base64
import socket
import sys
import tempfile
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from proxy.sandbox.aggregated.server import GROUP
from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.objects import apply
from proxy.sandbox.processes import LOOPBACK, ChildProcess, ReservedPort, start_child

NAMESPACE = "kubevirt"
SERVICE = "virt-api"
# The aggregator expects this name in the certificate, whatever address it connects to.
SERVER_NAME = f"{SERVICE}.{NAMESPACE}.svc"
_REGISTRATION = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{GROUP}"
READY_SECONDS = 30.0
POLL_SECONDS = 0.05


class AggregatedServer:
    """Runs on a port of 127.0.0.1 while the context is open; only the aggregator may connect."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._port = ReservedPort()
        self._process: ChildProcess | None = None
        self._admin: ApiClient | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port.number

    def __enter__(self) -> Self:
        self._process = self._start()
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the registration, stop the program and release its port."""
        if self._admin is not None:
            # A group without a server would be an error in every client's discovery. If the API
            # server is gone, so is the registration.
            with suppress(SandboxError):
                self._admin.call("DELETE", _REGISTRATION)
        if self._process is not None:
            self._process.stop()
        self._port.release()

    def register(self, *admins: ApiClient) -> None:
        """Register the group at API servers with shared objects; return when all serve it.

        There is one client per API server, because each updates its aggregator by its own watches.
        """
        self._admin = admins[0]
        for manifest in _manifests(self.port, self._control_plane.servers.certificate_pem):
            apply(self._admin, manifest)
        deadline = time.monotonic() + READY_SECONDS
        for admin in admins:
            while not _is_served(admin):
                _wait_before(deadline, f"{GROUP} is not served by the aggregator")

    def _start(self) -> ChildProcess:
        directory = Path(tempfile.mkdtemp(prefix="aggregated-", dir=self._control_plane.directory))
        serving = self._control_plane.servers.issue_server(SERVER_NAME, "localhost")
        client_authority = directory / "front-proxies.crt"
        client_authority.write_bytes(self._control_plane.front_proxies.certificate_pem)
        program = [sys.executable, "-P", "-m", "proxy.sandbox.aggregated.server"]
        files = [*serving.write(directory, "serving"), client_authority]
        return start_child(
            [*program, str(self.port), *files], log_file=directory / "aggregated.log"
        )

    def _wait_until_ready(self, process: ChildProcess) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not _is_listening(self.port):
            process.ensure_running()
            _wait_before(deadline, f"the aggregated server is not ready, see {process.log_file}")


def _is_served(admin: ApiClient) -> bool:
    try:
        return admin.request("GET", f"/apis/{GROUP}/v1").status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _wait_before(deadline: float, message: str) -> None:
    """Wait for one poll interval; raise SandboxError if the deadline has passed."""
    if time.monotonic() > deadline:
        raise SandboxError(message)
    time.sleep(POLL_SECONDS)


def _manifests(port: int, ca_pem: bytes) -> list[Manifest]:
    """Return the objects that make an API server proxy the group to this port."""
    metadata = {"name": SERVICE, "namespace": NAMESPACE}
    service_ports = [{"port": port, "protocol": "TCP"}]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": service_ports},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": "v1",
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "caBundle": base64.b64encode(ca_pem).decode(),
                "service": metadata | {"port": port},
            },
        },
    ]
