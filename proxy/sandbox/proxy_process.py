"""Understudy as a child process: `understudy serve` with a config file.

    with ProxyProcess(control_plane, api_server) as understudy:
        understudy.client(alice).request("GET", "/version")
        understudy.kubeconfig_for(alice, name="alice")      # for kubectl

Its reviewer and its forwarder have exactly the permissions in `proxy_rbac.py`.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import POLL_SECONDS, READY_SECONDS, ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import Credential, write_kubeconfig
from proxy.sandbox.objects import grant
from proxy.sandbox.processes import LOOPBACK, ChildProcess, ReservedPort, start_child
from proxy.sandbox.proxy_rbac import (
    REVIEWER_NAME,
    REVIEWER_RULES,
    Rule,
    forwarder_name,
    forwarder_rules,
)

# No load balancer has to remove the sandbox's proxy, so its shutdown need not wait.
QUICK_SHUTDOWN: Mapping[str, str] = MappingProxyType(
    {"delay": "0s", "watchWindow": "0s", "gracePeriod": "4s"}
)


class ProxyProcess:
    """A proxy in front of one API server. Use it as a context manager."""

    def __init__(
        self,
        control_plane: ControlPlane,
        api_server: ApiServer,
        *,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        components: Sequence[str] = (),
        code: Path | None = None,
    ) -> None:
        """Describe the proxy to run.

        `settings` are sections of the config file; each of their keys replaces the default.
        `components` are manifest components that extend the forwarder's permissions. `code` is the
        directory of another source tree to run.
        """
        self._control_plane = control_plane
        self._api_server = api_server
        self._settings = settings or {}
        self._components = components
        self._code = code
        self._cleanup = ExitStack()
        self.directory = Path()
        self.url = ""
        self.ca_pem = control_plane.servers.certificate_pem

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            self.directory = Path(
                cleanup.enter_context(tempfile.TemporaryDirectory(prefix="understudy-proxy-"))
            )
            port = cleanup.enter_context(ReservedPort())
            self.url = f"https://{LOOPBACK}:{port.number}"
            self.config_file = self._write_config(port.number)
            self.log_file = self.directory / "understudy.log"
            self.process = self._start(cleanup)
            self._wait_until(self._responds)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    def start_successor(self) -> ChildProcess:
        """Start a second instance on the same port, and return the first one, which still runs.

        Its separate log file shows when it serves; the shared port does not show which one does.
        """
        predecessor = self.process
        self.log_file = self.directory / "successor.log"
        self.process = self._start(self._cleanup)
        self._wait_until(lambda: '"serving"' in self.log_file.read_text())
        return predecessor

    def client(self, credential: Credential = None) -> ApiClient:
        """Return a client of the proxy with this credential, or without one."""
        return ApiClient(self.url, ca_pem=self.ca_pem, credential=credential)

    def kubeconfig_for(self, credential: Credential, *, name: str = "kubeconfig") -> Path:
        """Write a kubeconfig that points at the proxy, and return its path."""
        path = self.directory / f"{name}.yaml"
        return write_kubeconfig(path, url=self.url, ca_pem=self.ca_pem, credential=credential)

    def _write_config(self, port: int) -> Path:
        control_plane, directory = self._control_plane, self.directory
        reviewer = self._identity_kubeconfig("reviewer", REVIEWER_NAME, REVIEWER_RULES)
        forwarder = self._identity_kubeconfig(
            "forwarder", forwarder_name(self._components), forwarder_rules(self._components)
        )
        certificate, key = control_plane.servers.issue_server(LOOPBACK, "localhost").write(
            directory, "serving"
        )
        client_ca = directory / "client-ca.crt"
        client_ca.write_bytes(control_plane.clients.certificate_pem)
        defaults: dict[str, dict[str, Any]] = {
            "serving": {
                "address": f"{LOOPBACK}:{port}",
                "certificateFile": str(certificate),
                "keyFile": str(key),
                "shutdown": dict(QUICK_SHUTDOWN),
            },
            "authentication": {"clientCertificate": {"caFile": str(client_ca)}},
            "upstream": {
                "kubeconfig": str(forwarder),
                "reviewer": {"kubeconfig": str(reviewer)},
            },
        }
        sections = defaults | {
            name: {**defaults.get(name, {}), **section} for name, section in self._settings.items()
        }
        document = {
            "apiVersion": "kube-understudy.io/v1alpha1",
            "kind": "ProxyConfiguration",
            **sections,
        }
        path = directory / "config.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def _identity_kubeconfig(self, file: str, name: str, rules: Sequence[Rule]) -> Path:
        """Grant one of the proxy's identities its permissions, and write its kubeconfig."""
        # The prefix avoids a collision: the manifests contain roles of these names, too.
        subject = {"kind": "User", "name": name}
        grant(self._api_server.admin, f"sandbox-{name}", rules=rules, to=subject)
        return write_kubeconfig(
            self.directory / f"{file}.yaml",
            url=self._api_server.url,
            ca_pem=self._api_server.ca_pem,
            credential=self._control_plane.clients.issue_client(name),
        )

    def _start(self, cleanup: ExitStack) -> ChildProcess:
        process = start_child(
            [sys.executable, "-m", "proxy", "serve", "--config", self.config_file],
            log_file=self.log_file,
            directory=self._code,
        )
        cleanup.callback(process.stop)
        return process

    def _wait_until(self, is_serving: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not is_serving():
            self.process.ensure_running()
            if time.monotonic() > deadline:
                raise SandboxError(f"the proxy is not ready, see {self.log_file}")
            time.sleep(POLL_SECONDS)

    def _responds(self) -> bool:
        try:
            return self.client().request("GET", "/version").status == 401  # noqa: PLR2004 - unauthenticated
        except (OSError, HTTPException):
            return False
