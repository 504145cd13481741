"""`understudy act`, run as its users run it: a process beside the application.

with HopProcess("--as", "alice", server=understudy.url, ca_pem=understudy.ca_pem) as hop:
    hop.client(token).request("GET", "/version")
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.identities import Credential, write_kubeconfig
from proxy.sandbox.processes import LOOPBACK, start_child
from tests.support.streaming import wait_until


class HopProcess:
    """A hop, and the directory that it shares with the application."""

    def __init__(self, *options: str, server: str, ca_pem: bytes) -> None:
        self._options = options
        self._server = server
        self._server_ca_pem = ca_pem
        self._cleanup = ExitStack()
        self.port = 0
        self.shared = Path()

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            directory = Path(
                cleanup.enter_context(tempfile.TemporaryDirectory(prefix="understudy-act-"))
            )
            self.shared = directory / "shared"
            self.log_file = directory / "act.log"
            server_ca = directory / "server-ca.crt"
            server_ca.write_bytes(self._server_ca_pem)
            options = [f"--server={self._server}", f"--ca={server_ca}", *self._options]
            options += [f"--listen={LOOPBACK}:0", f"--in-cluster-dir={self.shared}"]
            process = start_child(
                [sys.executable, "-m", "proxy", "act", *options], log_file=self.log_file
            )
            cleanup.callback(process.stop)

            def is_listening() -> bool:
                process.ensure_running()
                return '"message":"sidecar started"' in self.log_file.read_text()

            wait_until(is_listening, "the hop does not listen")
            first = json.loads(self.log_file.read_text().splitlines()[0])
            self.port = int(first["address"].rpartition(":")[2])
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def ca_pem(self) -> bytes:
        """The CA it has written for its application."""
        return (self.shared / "ca.crt").read_bytes()

    def client(self, credential: Credential = None) -> ApiClient:
        """Return a client that trusts the hop, and shows it this credential."""
        return ApiClient(self.url, ca_pem=self.ca_pem, credential=credential)

    def kubeconfig_for(self, credential: Credential, *, namespace: str) -> Path:
        """Write a kubeconfig that points at the hop."""
        path = self.shared.parent / "kubeconfig.yaml"
        return write_kubeconfig(
            path, url=self.url, ca_pem=self.ca_pem, credential=credential, namespace=namespace
        )
