"""The proxy as its Deployment says: args, files, accounts and probes taken from the manifest.

    with InstalledProxy(cluster, deployment, tmp_path) as proxy:
        proxy.client(token).request("GET", "/version")

A pod is made of the Deployment's template, and what its kubelet would do is done by hand. Two
things are other than in a cluster: paths (`PodOnDisk.here`), and the two ports, which are free ones
of 127.0.0.1 because tests share a machine.
"""

import os
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.parse import urlsplit

from proxy.sandbox.api_client import ApiClient, Manifest
from proxy.sandbox.identities import Credential
from proxy.sandbox.objects import create_node
from proxy.sandbox.processes import LOOPBACK, ChildProcess, ReservedPort, start_child
from tests.support.empty_cluster import EmptyCluster
from tests.support.pod_on_disk import PodOnDisk, create_pod_of
from tests.support.streaming import wait_until

ROOT = Path(__file__).parents[2]
CONTAINER = "understudy"
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod_environment(url: str) -> dict[str, str]:
    """Return what a kubelet tells every container about the API server, and nothing of ours."""
    address = urlsplit(url)
    return {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",  # as in the image
        "KUBERNETES_SERVICE_HOST": address.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(address.port),
    }


class InstalledProxy:
    """A replica that runs while the context lasts."""

    def __init__(
        self, cluster: EmptyCluster, deployment: Manifest, directory: Path, *, ca_pem: bytes
    ) -> None:
        self._cluster = cluster
        self._deployment = deployment
        self._directory = directory
        self._cleanup = ExitStack()
        self.ca_pem = ca_pem
        self.url = ""
        self.log_file = directory / "understudy.log"

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            ports = {
                name: cleanup.enter_context(ReservedPort()).number for name in ("https", "admin")
            }
            self.url = f"https://{LOOPBACK}:{ports['https']}"
            create_node(self._cluster.admin, "node-of-the-proxy")
            pod = create_pod_of(
                self._cluster.admin,
                self._deployment,
                name="understudy-1",
                node="node-of-the-proxy",
            )
            self.pod = PodOnDisk(self._cluster.admin, pod, self._directory / "volumes")
            self._move_to(ports, pod)
            self.process = self._start()
            cleanup.callback(self.process.stop)
            self._wait_until_ready(ports["admin"])
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    def client(self, credential: Credential = None) -> ApiClient:
        """Return a client that shows this credential to the proxy."""
        return ApiClient(self.url, ca_pem=self.ca_pem, credential=credential)

    def _move_to(self, ports: dict[str, int], pod: Manifest) -> None:
        """Rewrite paths and ports of the mounted config file, and nothing else of it."""
        (container,) = pod["spec"]["containers"]
        config = Path(self.pod.here("/etc/understudy/config.yaml"))
        text = self.pod.here(config.read_text())
        for one in container["ports"]:
            written = f"address: 0.0.0.0:{one['containerPort']}\n"
            assert text.count(written) == 1, f"the port {one['name']} is not the config file's"
            text = text.replace(written, f"address: {LOOPBACK}:{ports[one['name']]}\n")
        config.chmod(0o600)
        config.write_text(text)

    def _start(self) -> ChildProcess:
        variables = pod_environment(self._cluster.server.url) | self.pod.environment(CONTAINER)
        account = self.pod.here(_SERVICE_ACCOUNT)
        program = [sys.executable, "-m", "tests.support.in_pod", account]
        return start_child(
            [*program, *self.pod.arguments(CONTAINER)],
            log_file=self.log_file,
            environment=variables,
            directory=ROOT,
        )

    def _wait_until_ready(self, admin_port: int) -> None:
        for name in ("startup", "liveness", "readiness"):
            asked = self.pod.probe(CONTAINER, name)["httpGet"]
            url = f"http://{LOOPBACK}:{admin_port}{asked['path']}"

            def succeeds(url: str = url) -> bool:
                self.process.ensure_running()
                return _status(url) == 200

            wait_until(succeeds, f"the {name} probe fails, see {self.log_file}")


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            status: int = answer.status
    except URLError as error:
        return getattr(error, "code", 0)
    return status
