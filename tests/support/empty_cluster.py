"""A cluster with nothing in it, for tests that install into it: an etcd and a plain API server."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.binaries import Binaries
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import apply
from tests.support.kubectl import Kubectl

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "understudy"


@dataclass(frozen=True, slots=True)
class EmptyCluster:
    """An API server without constrained impersonation, and an administrator's kubectl."""

    control_plane: ControlPlane
    server: ApiServer
    kubectl: Kubectl

    @property
    def admin(self) -> ApiClient:
        """A client with every right."""
        return self.server.admin

    def run(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run kubectl, which must succeed, and return what it printed."""
        done = self.kubectl.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def install(self, *options: str) -> str:
        """Apply, with every field known to the API server or refused."""
        return self.run("apply", "--server-side", "--validate=strict", *options)

    def publish_root_ca(self, namespace: str) -> None:
        """Do what the controller-manager does in every namespace."""
        apply(
            self.admin,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": namespace, "name": "kube-root-ca.crt"},
                "data": {"ca.crt": self.server.ca_pem.decode()},
            },
        )


@contextmanager
def empty_cluster(binaries: Binaries) -> Iterator[EmptyCluster]:
    """Run one for the time of the context."""
    with ControlPlane(binaries) as control_plane:
        server = control_plane.start_api_server(
            ApiServerOptions(name="empty", constrained_impersonation=False)
        )
        kubeconfig = server.kubeconfig_for(control_plane.admin, name="admin")
        yield EmptyCluster(
            control_plane, server, Kubectl(control_plane.binaries.kubectl, kubeconfig)
        )


def built(kubectl: Kubectl, directory: Path) -> list[dict[str, Any]]:
    """Return the objects of a kustomization, as kubectl builds them."""
    done = kubectl.run("kustomize", str(directory))
    assert done.returncode == 0, done.stderr.decode()
    return list(yaml.safe_load_all(done.stdout))


def write_overlay(directory: Path, *, components: Sequence[str], more: str = "") -> None:
    """Write the kustomization of somebody who installs the base with these components."""
    # kubectl takes no absolute path for a root.
    manifests = os.path.relpath(MANIFESTS, directory.resolve())
    listed = [f"{manifests}/components/{one}" for one in components]
    document = {"resources": [f"{manifests}/base"], "components": listed}
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(document) + more)
