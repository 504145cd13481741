"""Small Go programs of the tests and benchmarks, built once for their sources.

    program = go_program("fake-kubelet", SOURCE)    # the directory of a Go module

What was built is kept in our cache directory under a digest of the sources, so a change builds
anew and nothing else does.
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

# Seconds when the control plane was built on this machine before, minutes from nothing.
BUILD_SECONDS = 1200
# Those of the control plane, so that Go compiles what both need only once.
_FLAGS = ("-mod=readonly", "-trimpath", "-ldflags=-s -w")


def go_program(
    name: str, source: Path, *, package: str = ".", tags: str = "", notice: str = ""
) -> Path:
    """Return a program of a module, of its root package unless told; OSError, SubprocessError.

    `tags` are Go's build tags, with commas. `notice` is told to whoever has to wait for a build.
    """

    def build(directory: Path) -> None:
        if notice:
            announce_on_stderr(notice)
        subprocess.run(  # noqa: S603 - our own sources, by the toolchain on the PATH
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
    """Return the cached directory of that name, made by `build` when it is not there yet.

    `build` fills an empty directory. It gets its name only when it is complete, so a crash or an
    error leaves nothing that a later run would take for finished; two makers wait for each other.
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
