"""Small Go programs of the tests and benchmarks, built once for their sources.

    program = go_program("fake-kubelet", SOURCE)    # the directory of a Go module

A program is cached under a digest of its sources, so only a change of the sources rebuilds it.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from proxy.sandbox.programs.binaries import announce_on_stderr
from proxy.sandbox.programs.cache import cache_directory, exclusive

# A build takes seconds if the control plane was built on this machine before, otherwise minutes.
BUILD_SECONDS = 1200
# Equal to those of the control plane, so that Go compiles shared packages only once.
_FLAGS = ("-mod=readonly", "-trimpath", "-ldflags=-s -w")


def go_program(
    name: str, source: Path, *, package: str = ".", tags: str = "", notice: str = ""
) -> Path:
    """Build a program of a module, by default of its root package; OSError, SubprocessError.

    `tags` are Go's build tags, separated by commas. `notice` is printed before a build.
    """

    def build(directory: Path) -> None:
        if notice:
            announce_on_stderr(notice)
        subprocess.run(  # noqa: S603 - this repository's sources, by the toolchain on the PATH
            ["go", "build", *_FLAGS, f"-tags={tags}", "-o", directory / name, package],  # noqa: S607
            cwd=source,
            env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=True,
        )

    return build_once(f"{name}-{_source_digest(source, package + tags)}", build) / name


def build_once(name: str, build: Callable[[Path], None]) -> Path:
    """Return the cached directory of that name, created by `build` if it does not exist.

    `build` fills an empty directory, which is renamed only when it is complete. A crash or an error
    therefore leaves no directory that seems complete. Concurrent builds wait for each other.
    """
    finished = cache_directory().parent / name
    with exclusive(finished, announce_on_stderr):
        if not finished.is_dir():
            unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=finished.parent))
            try:
                build(unfinished)
                unfinished.rename(finished)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return finished


def _source_digest(source: Path, package: str) -> str:
    digest = hashlib.sha256(package.encode())
    for path in sorted([*source.glob("*.go"), *source.glob("go.mod"), *source.glob("go.sum")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
