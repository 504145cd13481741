"""Go build of the control plane's programs, from the pinned module in this directory."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.processes import start_child
from proxy.sandbox.programs.cache import (
    ETCD,
    KUBE_APISERVER,
    KUBECTL,
    KUBERNETES_VERSION,
    Announce,
)

MODULE = Path(__file__).with_name("gomodule")
MODULE_FILES = ("go.mod", "go.sum")
PACKAGES = {
    ETCD: "go.etcd.io/etcd/server/v3",
    KUBECTL: "k8s.io/kubernetes/cmd/kubectl",
    KUBE_APISERVER: "k8s.io/kubernetes/cmd/kube-apiserver",
}
HEARTBEAT_SECONDS = 15.0


def build_programs(directory: Path, announce: Announce) -> str:
    """Build every program into a directory; return a description of the toolchain."""
    go = shutil.which("go")
    if go is None:
        raise SandboxError("there is no `go` on the PATH")
    announce(
        f"building Kubernetes {KUBERNETES_VERSION} with Go: "
        "once per machine, about 9 minutes on 2 cores"
    )
    for number, (program, package) in enumerate(PACKAGES.items(), start=1):
        announce(f"building {program} ({number} of {len(PACKAGES)})")
        _build(go, package, output=directory / program, announce=announce)
    return f"built by {_version_of(go)}"


def _build(go: str, package: str, *, output: Path, announce: Announce) -> None:
    """Build one program from a copy of the module, and announce progress periodically."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="understudy-build-") as name:
        # A copy, because an installed package may be read-only or inside another module.
        module = Path(name) / "module"
        module.mkdir()
        for file in MODULE_FILES:
            shutil.copyfile(MODULE / file, module / file)
        child = start_child(
            [go, "build", *build_flags(), "-o", output, package],
            log_file=Path(name) / "go.log",
            environment={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            directory=module,
        )
        try:
            while (code := child.wait(HEARTBEAT_SECONDS)) is None:
                announce(f"  still building {output.name}, {time.monotonic() - started:.0f} s")
        finally:
            child.stop()
        if code != 0:
            raise SandboxError(f"building {output.name} failed: {child.log_tail()}")


def build_flags() -> list[str]:
    """Return Go's flags: pinned modules, no local paths, versions set by the linker."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    linker = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        linker += [
            f"-X {package}.gitVersion=v{KUBERNETES_VERSION}",
            f"-X {package}.gitMajor={major}",
            f"-X {package}.gitMinor={minor}",
        ]
    return ["-mod=readonly", "-trimpath", "-ldflags", " ".join(linker)]


def build_digest() -> str:
    """Return a digest of all inputs of a build."""
    digest = hashlib.sha256(repr((PACKAGES, build_flags())).encode())
    for name in MODULE_FILES:
        digest.update((MODULE / name).read_bytes())
    return f"Kubernetes {KUBERNETES_VERSION} sha256:{digest.hexdigest()}"


def _version_of(go: str) -> str:
    result = subprocess.run(  # noqa: S603 - the toolchain that has just built the programs
        [go, "env", "GOVERSION"], capture_output=True, check=False
    )
    return result.stdout.decode(errors="replace").strip() or "Go"
