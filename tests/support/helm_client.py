"""Helm, built from its Go module: the version is pinned in `helm/go.mod`, its sums in `go.sum`."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.build_once import built_by_go

MODULE = Path(__file__).with_name("helm")


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
    return built_by_go("helm", MODULE, package="helm.sh/helm/v4/cmd/helm")
