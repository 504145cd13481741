"""The proxy as a side of the comparison: run as its users run it, observed from outside."""

import sys
import tempfile
import time
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.processes import LOOPBACK, ReservedPort, start_child
from proxy.sandbox.proxy_process import ProxyProcess
from proxy.sandbox.proxy_rbac import ALL_EXTRAS
from tests.parity.audit_tail import AuditTail
from tests.parity.sides import Side, scrape
from tests.parity.webhook import Recording

_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.02
# A caller here asks more within a second than a person does in a day.
_NO_RATION = {"perCallerPerSecond": 1_000_000, "perCallerBurst": 1_000_000}


class ProxySide:
    """A proxy before one server. Use it as a context manager."""

    def __init__(
        self,
        control_plane: ControlPlane,
        server: ApiServer,
        recording: Recording | None,
        *,
        constrained: bool,
    ) -> None:
        # Protected groups are refused in one half and left alone in the other: both are shown.
        self.protects_groups = recording is None
        self._control_plane = control_plane
        self._server = server
        self._recording = recording
        self._constrained = constrained
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="parity-"))
            port = cleanup.enter_context(ReservedPort())
            self._audit_log = Path(directory, "audit.log")
            self._metrics_url = f"http://{LOOPBACK}:{port.number}/metrics"
            self._process = cleanup.enter_context(
                ProxyProcess(
                    self._control_plane,
                    self._server,
                    settings=self._settings(port.number),
                    components=[ALL_EXTRAS],
                )
            )
            self._wait_until_admitting()
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
    def config_file(self) -> Path:
        """What it was told."""
        return self._process.config_file

    def side(self) -> Side:
        """Return what the comparison needs to know of it."""
        return Side(
            name="proxy",
            url=self._process.url,
            audit=AuditTail(self._audit_log),
            behind=AuditTail(self._server.audit_log),
            recording=self._recording,
            series=lambda: scrape(self._metrics_url),
        )

    def restart_with_mistake(self, mistake: str) -> None:
        """Go on with a proxy that makes a mistake on purpose; see `mutants`."""
        self._process.process.stop()
        command = [sys.executable, "-m", "tests.parity.mutated_proxy", mistake]
        self._process.process = start_child(
            [*command, self._process.config_file], log_file=self._process.log_file
        )
        self._cleanup.callback(self._process.process.stop)
        self._wait_until_admitting()

    def _settings(self, admin_port: int) -> dict[str, dict[str, object]]:
        impersonation: dict[str, object] = {
            "constrained": self._constrained,
            "reviews": _NO_RATION,
        }
        if not self.protects_groups:
            impersonation["protectedGroups"] = []
        return {
            "impersonation": impersonation,
            "audit": {"log": {"path": str(self._audit_log)}},
            "admin": {"address": f"{LOOPBACK}:{admin_port}"},
            "log": {"level": "warning"},
        }

    def _wait_until_admitting(self) -> None:
        """Wait until the proxy knows who it is: before that it lets nobody in."""
        somebody = self._control_plane.clients.issue_client("parity-probe")
        client = self._process.client(somebody)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if client.request("GET", "/version").status == 200:
                    return
            except (OSError, HTTPException):
                pass  # it is only just starting
            self._process.process.ensure_running()
            time.sleep(_POLL_SECONDS)
        raise SandboxError(f"the proxy admits nobody, see {self._process.log_file}")
