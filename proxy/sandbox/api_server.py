"""One kube-apiserver: its options, its command line and its process."""

import time
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import Credential, KeyPair, write_kubeconfig
from proxy.sandbox.processes import LOOPBACK, ChildProcess, ReservedPort, start_child

METADATA_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
rules: [{level: Metadata}]
"""
NODE_AND_RBAC = ("--authorization-mode=Node,RBAC",)
READY_SECONDS = 60.0
POLL_SECONDS = 0.05


def webhook_authorization(kubeconfig: Path) -> tuple[str, ...]:
    """Return the flags that delegate every decision to a webhook, without caching."""
    return (
        "--authorization-mode=Webhook",
        f"--authorization-webhook-config-file={kubeconfig}",
        "--authorization-webhook-version=v1",
        "--authorization-webhook-cache-authorized-ttl=0s",
        "--authorization-webhook-cache-unauthorized-ttl=0s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerOptions:
    """The options in which API servers on the same etcd may differ."""

    name: str = "kube-apiserver"
    """The name of its directory, so it must be unique within a control plane."""
    constrained_impersonation: bool | None = None
    """None uses the feature gate's default in the (emulated) version: on since 1.36."""
    emulated_version: str | None = None
    """Major and minor, such as `1.34`; None is the binary's own version."""
    authorization: tuple[str, ...] = NODE_AND_RBAC
    """Flags: `NODE_AND_RBAC`, `webhook_authorization(...)`, or others."""
    audit_policy: str = METADATA_POLICY
    etcd_prefix: str = "/registry"
    """Servers with the same prefix share every object."""
    port: int = 0
    """0 selects a free port."""
    extra_flags: tuple[str, ...] = ()
    """Appended last, so they override the other flags."""


class ApiServer:
    """A kube-apiserver with its own port, audit log and directory. It can be stopped and restarted.

    `url` and `ca_file` (or `ca_pem`) are for clients, `audit_log` is a file of JSON lines, and
    `admin` is a client with all permissions.
    """

    def __init__(
        self,
        program: Path,
        *,
        options: ApiServerOptions,
        directory: Path,
        shared_flags: tuple[str, ...],
        ca_file: Path,
        admin: KeyPair,
    ) -> None:
        self.options = options
        self.directory = directory
        self.ca_file = ca_file
        self.ca_pem = ca_file.read_bytes()
        self.audit_log = directory / "audit.log"
        self.log_file = directory / "kube-apiserver.log"
        self._port = ReservedPort(options.port)
        self.url = f"https://{LOOPBACK}:{self._port.number}"
        self.admin = self.client(admin)
        self._command: list[str | Path] = [
            program,
            *self._flags(),
            *shared_flags,
            *options.extra_flags,
        ]
        self._process: ChildProcess | None = None
        (directory / "audit-policy.yaml").write_text(options.audit_policy)

    @property
    def process(self) -> ChildProcess:
        """The running process, for signals; raises SandboxError while it is stopped."""
        if self._process is None:
            raise SandboxError(f"{self.options.name} is not running")
        return self._process

    def client(self, credential: Credential = None) -> ApiClient:
        """Return a client with this credential, or without one."""
        return ApiClient(self.url, ca_pem=self.ca_pem, credential=credential)

    def kubeconfig_for(self, credential: Credential, *, name: str = "kubeconfig") -> Path:
        """Write a kubeconfig into the server's directory and return its path."""
        path = self.directory / f"{name}.yaml"
        return write_kubeconfig(path, url=self.url, ca_pem=self.ca_pem, credential=credential)

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        self._process = start_child(self._command, log_file=self.log_file)

    def wait_until_ready(self) -> None:
        """Wait until /readyz is ok; raise SandboxError if the process exits or times out."""
        deadline = time.monotonic() + READY_SECONDS
        while not self.is_ready():
            self.process.ensure_running()
            if time.monotonic() > deadline:
                raise SandboxError(f"{self.options.name} is not ready, see {self.log_file}")
            time.sleep(POLL_SECONDS)

    def is_ready(self) -> bool:
        """Return whether /readyz is ok; no response means not ready."""
        try:
            return self.admin.request("GET", "/readyz").status == 200  # noqa: PLR2004 - HTTP's OK
        except (OSError, HTTPException):
            return False

    def stop(self) -> None:
        """Stop the process if it runs; its port stays reserved, so `launch` can restart it."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def close(self) -> None:
        """Stop the process and release its port."""
        self.stop()
        self._port.release()

    def _flags(self) -> list[str]:
        options = self.options
        flags = [
            f"--secure-port={self._port.number}",
            "--permit-port-sharing=true",
            f"--etcd-prefix={options.etcd_prefix}",
            f"--cert-dir={self.directory}",
            f"--audit-log-path={self.audit_log}",
            f"--audit-policy-file={self.directory / 'audit-policy.yaml'}",
            *options.authorization,
        ]
        if options.constrained_impersonation is not None:
            state = str(options.constrained_impersonation).lower()
            flags.append(f"--feature-gates=ConstrainedImpersonation={state}")
        if options.emulated_version is not None:
            flags.append(f"--emulated-version={options.emulated_version}")
        return flags
