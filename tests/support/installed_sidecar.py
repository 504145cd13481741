"""`understudy act` as an overlay says, beside an application that only knows it is in a cluster.

    with started_hop(cluster, daemon_set, tmp_path, node="node-1", proxy_url=proxy.url) as hop:
        async with in_cluster_client(hop, monkeypatch) as client:
            ...

As with the proxy itself, paths and the port are other than in a cluster, and nothing else.
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient as KubernetesClient
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import incluster_config

from proxy.sandbox.api_client import Manifest
from proxy.sandbox.processes import LOOPBACK, ChildProcess, start_child
from tests.support.empty_cluster import NAMESPACE, EmptyCluster
from tests.support.installed_proxy import CONTAINER, pod_environment
from tests.support.pod_on_disk import PodOnDisk, create_pod_of
from tests.support.streaming import wait_until


@dataclass(frozen=True, slots=True)
class Hop:
    """A running hop, and the pod it belongs to."""

    pod: PodOnDisk
    port: int
    application: str
    """The container that it serves."""


@contextmanager
def started_hop(
    cluster: EmptyCluster, workload: Manifest, directory: Path, *, node: str, proxy_url: str
) -> Iterator[Hop]:
    """Make a pod of the workload on the node, and run its hop for the time of the context."""
    name = f"{workload['metadata']['name']}-pod"
    created = create_pod_of(cluster.admin, workload, name=name, node=node)
    pod = PodOnDisk(cluster.admin, created, directory / "volumes")
    service = f"--server=https://understudy.{NAMESPACE}.svc"
    arguments = pod.arguments(CONTAINER)
    arguments[arguments.index(service)] = f"--server={proxy_url}"
    process = start_child(
        # Any free port, because tests share a machine; the manifest leaves it at its default.
        [sys.executable, "-m", "proxy", *arguments, f"--listen={LOOPBACK}:0"],
        log_file=directory / "hop.log",
        environment=pod_environment(cluster.server.url) | pod.environment(CONTAINER),
    )
    try:
        _wait_for_startup(process, pod)
        first = json.loads(process.log_file.read_text().splitlines()[0])
        (application,) = (one["name"] for one in created["spec"]["containers"])
        yield Hop(pod, int(first["address"].rpartition(":")[2]), application)
    finally:
        process.stop()


def _wait_for_startup(process: ChildProcess, pod: PodOnDisk) -> None:
    probe = [pod.here(word) for word in pod.probe(CONTAINER, "startup")["exec"]["command"]]

    def has_started() -> bool:
        process.ensure_running()
        is_acting = '"message":"sidecar started"' in process.log_file.read_text()
        return is_acting and subprocess.run(probe, check=False, timeout=30).returncode == 0

    wait_until(has_started, f"the startup probe fails, see {process.log_file}")


@asynccontextmanager
async def in_cluster_client(
    hop: Hop, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[KubernetesClient]:
    """The client of an application that reads its service account's files, and no other word."""
    for name in ("SERVICE_TOKEN_FILENAME", "SERVICE_CERT_FILENAME"):
        monkeypatch.setattr(incluster_config, name, hop.pod.here(getattr(incluster_config, name)))
    variables = hop.pod.environment(hop.application)
    assert variables.pop("KUBERNETES_SERVICE_PORT") == "7443"  # where a hop listens unless told
    for name, value in (variables | {"KUBERNETES_SERVICE_PORT": str(hop.port)}).items():
        monkeypatch.setenv(name, value)
    settings = Configuration()
    config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]  # it ships half its types
    async with KubernetesClient(configuration=settings) as client:
        yield client
