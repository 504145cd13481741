"""Helm, built from its Go module: the version is pinned in `helm/go.mod`, its sums in `go.sum`."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.build_once import build_once, report_missing

MODULE = Path(__file__).with_name("helm")
PACKAGE = "helm.sh/helm/v4/cmd/helm"
BUILD_SECONDS = 1200


@dataclass(frozen=True, slots=True)
class Helm:
    """A helm with its kubeconfig; what it keeps stays beside that, not in $HOME."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run to the end, whatever the exit code."""
        home = self.kubeconfig.with_suffix(".helm")
        places = {f"HELM_{name}_HOME": str(home / name) for name in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [self.program, f"--kubeconfig={self.kubeconfig}", *arguments],
            env=os.environ | places,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )


def helm_program() -> Path:
    """Return the program, built once for its pins; skip or fail the test if Go cannot."""
    try:
        return build_once(f"helm-{_pins_digest()}", _build) / "helm"
    except (OSError, subprocess.SubprocessError) as error:
        details = getattr(error, "stderr", None) or error
        report_missing(f"helm cannot be built with Go: {details}")


def _build(directory: Path) -> None:
    # The flags of the control plane's build, so that Go compiles what both need only once.
    subprocess.run(
        ["go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", directory, PACKAGE],
        cwd=MODULE,
        env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=True,
    )


def _pins_digest() -> str:
    digest = hashlib.sha256(PACKAGE.encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return digest.hexdigest()[:16]
