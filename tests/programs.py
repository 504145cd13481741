"""Build the control plane and the programs of tests ahead: `make programs`.

Without this, the first test that needs a program builds it while the others run.
"""

import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.dashboard.programs import engine_program, promtool_program
from bench.stage import bench_program
from proxy.sandbox.errors import SandboxError
from proxy.sandbox.programs.binaries import find_binaries
from tests.support.chain_oracle import chain_oracle_program
from tests.support.go_server import go_server_program
from tests.support.helm_client import helm_program
from tests.support.informer import informer_program
from tests.support.kubelet import fake_kubelet_program
from tests.support.old_kubectl import old_kubectl
from tests.support.oracle import oracle_program
from tests.support.pinned_crds import pinned_crds

Build = Callable[[], object]

# Go compiles a package once, if builds that share it do not run at the same time. Those that share
# most with the control plane are last: then its packages are compiled.
_OTHERS: tuple[Build, ...] = (
    promtool_program,
    engine_program,
    oracle_program,
    chain_oracle_program,
    go_server_program,
    bench_program,
    old_kubectl,
    pinned_crds,
    fake_kubelet_program,
    informer_program,
    helm_program,
)


def main() -> int:
    """Build everything, the control plane beside the rest; 1 if a program cannot be built."""
    # Neither uses two cores all the time: linking uses one.
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(_failures, ([find_binaries], _OTHERS))
        failures = [failure for result in results for failure in result]
    for failure in failures:
        sys.stderr.write(f"{failure}\n")
    return 1 if failures else 0


def _failures(builds: Iterable[Build]) -> list[str]:
    found = []
    for build in builds:
        try:
            build()
        except (
            OSError,
            subprocess.SubprocessError,
            SandboxError,
            pytest.skip.Exception,
            pytest.fail.Exception,
        ) as error:
            found.append(str(error))
    return found


if __name__ == "__main__":
    sys.exit(main())
