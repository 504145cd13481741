"""A cluster with nothing in it, for tests that install into it: an etcd and a plain API server."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import apply
from proxy.sandbox.programs.binaries import Binaries
from tests.support.kubectl import Kubectl

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "understudy"
_INSTALLATION = (MANIFESTS.parent / "docs" / "installation.md").read_text()


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

    def follow(self, step: str, directory: Path, **variables: str) -> str:
        """Run a step of `docs/installation.md` as a person would; return what it printed.

        The directory is what the step finds `manifests` in, and leaves its own files in.
        """
        programs = _with_programs(directory, self.kubectl.program)
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(directory),
            "KUBECONFIG": str(self.kubectl.kubeconfig),
            **variables,
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", step_of_installation(step)],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

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


def step_of_installation(name: str) -> str:
    """Return a block of `docs/installation.md` that is marked as tested under this name."""
    found = re.findall(rf"<!-- tested: {name} -->\n```sh\n(.*?)```", _INSTALLATION, re.DOTALL)
    (script,) = found
    assert isinstance(script, str)
    return script


def _with_programs(directory: Path, kubectl: Path) -> Path:
    """Make a directory for somebody who has cloned us and installed us, and return its programs."""
    programs = directory / "bin"
    if not programs.exists():
        programs.mkdir()
        (programs / "kubectl").symlink_to(kubectl)
        understudy = programs / "understudy"
        understudy.write_text(f'#!/bin/sh\nexec {sys.executable} -m proxy "$@"\n')
        understudy.chmod(0o755)
        (directory / "manifests").symlink_to(MANIFESTS)
    return programs


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
