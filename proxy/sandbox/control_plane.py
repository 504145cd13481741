"""A real control plane on this machine: one etcd, any number of kube-apiservers.

    with ControlPlane(find_binaries()) as control_plane:
        native, plain = control_plane.start_api_servers(
            ApiServerOptions(name="native", constrained_impersonation=True),
            ApiServerOptions(name="plain", constrained_impersonation=False),
        )
        alice = control_plane.clients.issue_client("alice", groups=("dev",))
        plain.client(alice).request("GET", "/api")          # any status
        plain.admin.call("GET", "/api/v1/namespaces")       # system:masters, must succeed
        plain.kubeconfig_for(alice, name="alice")           # for kubectl
        apply(plain.admin, {...}), create_namespace(...), token_for(...)   # see objects.py

There is no controller-manager, scheduler or kubelet: `objects.py` sets what they would set.
Everything listens on 127.0.0.1, is stored in a temporary directory, and stops with this process,
even if that is killed.
"""

import http.client
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from proxy.sandbox.api_server import (
    POLL_SECONDS,
    READY_SECONDS,
    ApiServer,
    ApiServerOptions,
)
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.identities import (
    ADMIN_GROUP,
    CertificateAuthority,
    TokenUser,
    write_signing_key,
    write_token_file,
)
from proxy.sandbox.processes import LOOPBACK, ChildProcess, ReservedPort, start_child
from proxy.sandbox.programs.binaries import Binaries

ISSUER = "https://kubernetes.default.svc"
FRONT_PROXY_NAME = "front-proxy-client"


class ControlPlane:
    """An etcd and the CAs that its API servers share. Use it as a context manager.

    `clients` signs client certificates and `servers` serving certificates, those of the API servers
    and of kubelets. `front_proxies` signs certificates of clients that may send X-Remote-* headers.
    `admin` has all permissions. `token_users` is fixed at the start: the API server reads its token
    file once.
    """

    def __init__(self, binaries: Binaries, *, token_users: Iterable[TokenUser] = ()) -> None:
        self.binaries = binaries
        self.token_users = {user.name: user for user in token_users}
        self.clients = CertificateAuthority("understudy-clients")
        self.servers = CertificateAuthority("understudy-servers")
        self.front_proxies = CertificateAuthority("understudy-front-proxies")
        self.admin = self.clients.issue_client("admin", groups=(ADMIN_GROUP,))
        self.directory = Path()
        self._cleanup = ExitStack()
        self._shared_flags: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            self.directory = Path(
                cleanup.enter_context(tempfile.TemporaryDirectory(prefix="understudy-"))
            )
            port = cleanup.enter_context(ReservedPort())
            peer_port = cleanup.enter_context(ReservedPort())
            etcd = _start_etcd(self.binaries.etcd, self.directory, port, peer_port)
            cleanup.callback(etcd.stop)
            etcd_url = f"http://{LOOPBACK}:{port.number}"
            self._shared_flags = (f"--etcd-servers={etcd_url}", *self._write_shared_files())
            _wait_for_etcd(etcd, port.number)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Stopped in reverse order: no API server runs without its etcd.
        self._cleanup.close()

    def start_api_server(self, options: ApiServerOptions | None = None) -> ApiServer:
        """Start one API server, and return it when it is ready."""
        (server,) = self.start_api_servers(options or ApiServerOptions())
        return server

    def start_api_servers(self, *options: ApiServerOptions) -> tuple[ApiServer, ...]:
        """Start several API servers concurrently, and return them when all are ready."""
        servers = tuple(self._prepare(each) for each in options)
        for server in servers:
            server.launch()
        for server in servers:
            server.wait_until_ready()
        return servers

    def _prepare(self, options: ApiServerOptions) -> ApiServer:
        directory = self.directory / options.name
        try:
            directory.mkdir()
        except FileExistsError as error:
            raise SandboxError(f"an API server named {options.name} exists already") from error
        server = ApiServer(
            self.binaries.kube_apiserver,
            options=options,
            directory=directory,
            shared_flags=self._shared_flags,
            ca_file=self.directory / "server-ca.crt",
            admin=self.admin,
        )
        self._cleanup.callback(server.close)
        return server

    def _write_shared_files(self) -> list[str]:
        """Write certificates, keys and tokens; return the flags that name them."""
        at = self.directory
        (at / "server-ca.crt").write_bytes(self.servers.certificate_pem)
        (at / "client-ca.crt").write_bytes(self.clients.certificate_pem)
        (at / "front-proxy-ca.crt").write_bytes(self.front_proxies.certificate_pem)
        serving = self.servers.issue_server(LOOPBACK, "localhost", "kubernetes.default.svc")
        serving_certificate, serving_key = serving.write(at, "serving")
        front_proxy = self.front_proxies.issue_client(FRONT_PROXY_NAME)
        front_proxy_certificate, front_proxy_key = front_proxy.write(at, "front-proxy")
        kubelet_client = self.clients.issue_client("kube-apiserver", groups=(ADMIN_GROUP,))
        kubelet_certificate, kubelet_key = kubelet_client.write(at, "kubelet-client")
        write_signing_key(at / "service-accounts.key")
        write_token_file(at / "tokens.csv", self.token_users.values())
        return [
            *_fixed_flags(),
            f"--tls-cert-file={serving_certificate}",
            f"--tls-private-key-file={serving_key}",
            f"--client-ca-file={at / 'client-ca.crt'}",
            f"--token-auth-file={at / 'tokens.csv'}",
            f"--service-account-key-file={at / 'service-accounts.key'}",
            f"--service-account-signing-key-file={at / 'service-accounts.key'}",
            f"--requestheader-client-ca-file={at / 'front-proxy-ca.crt'}",
            f"--proxy-client-cert-file={front_proxy_certificate}",
            f"--proxy-client-key-file={front_proxy_key}",
            f"--kubelet-client-certificate={kubelet_certificate}",
            f"--kubelet-client-key={kubelet_key}",
        ]


def _fixed_flags() -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        # Servers with the same prefix would overwrite the endpoints of the `kubernetes` Service.
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-issuer={ISSUER}",
        f"--requestheader-allowed-names={FRONT_PROXY_NAME}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        # As in production clusters, with the Node authorizer: a node changes only its own objects.
        "--enable-admission-plugins=NodeRestriction",
    ]


def _start_etcd(
    program: Path, directory: Path, port: ReservedPort, peer_port: ReservedPort
) -> ChildProcess:
    url, peer_url = (f"http://{LOOPBACK}:{each.number}" for each in (port, peer_port))
    command: list[str | Path] = [
        program,
        "--name=sandbox",
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=sandbox={peer_url}",
        "--socket-reuse-port=true",
        # The data is not needed after this process, so writes need not reach the disk.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    return start_child(command, log_file=directory / "etcd.log")


def _wait_for_etcd(etcd: ChildProcess, port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _is_etcd_ready(port):
        etcd.ensure_running()
        if time.monotonic() > deadline:
            raise SandboxError(f"etcd is not ready, see {etcd.log_file}")
        time.sleep(POLL_SECONDS)


def _is_etcd_ready(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
