"""A cluster that was empty, and what `docs/installation.md` makes of it.

Nothing is granted, and no file written, but what the document and the manifests say.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.sandbox.objects import create_namespace
from proxy.sandbox.programs.binaries import Binaries
from tests.support.empty_cluster import NAMESPACE, EmptyCluster, empty_cluster
from tests.support.installed_proxy import InstalledProxy


@pytest.fixture(scope="package")
def cluster(binaries: Binaries) -> Iterator[EmptyCluster]:
    with empty_cluster(binaries) as running:
        names = running.run("get", "namespaces", "--output=name").split()
        assert f"namespace/{NAMESPACE}" not in names
        yield running


@pytest.fixture(scope="package")
def home(cluster: EmptyCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where somebody has installed the proxy from, by the book."""
    directory = tmp_path_factory.mktemp("home")
    cluster.follow("install", directory)
    # No controller does it here.
    cluster.publish_root_ca(NAMESPACE)
    create_namespace(cluster.admin, "default")
    return directory


@pytest.fixture(scope="package")
def proxy(
    cluster: EmptyCluster, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledProxy]:
    # As the cluster has it, every default filled in.
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/understudy"
    deployment = cluster.admin.call("GET", path)
    directory, ca_pem = tmp_path_factory.mktemp("proxy"), (home / "ca.crt").read_bytes()
    with InstalledProxy(cluster, deployment, directory, ca_pem=ca_pem) as running:
        yield running
