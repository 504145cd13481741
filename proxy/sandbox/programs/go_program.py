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
from dataclasses import dataclass
from pathlib import Path

from proxy.sandbox.programs.binaries import announce_on_stderr
from proxy.sandbox.programs.cache import cache_directory, exclusive

# A build takes seconds if the control plane was built on this machine before, otherwise minutes.
BUILD_SECONDS = 1200
# Equal to those of the control plane, so that Go compiles shared packages only once.
_FLAGS = ("-mod=readonly", "-trimpath", "-ldflags=-s -w")
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}


@dataclass(frozen=True, slots=True)
class GoVariant:
    """Other versions of the modules that a program is built with."""

    module_file: str = "go.mod"
    """A file beside `go.mod`; Go keeps the checksums in a file with the same stem and `.sum`."""
    toolchain: str = ""
    """A toolchain that Go fetches from the module registry, for example `go1.27.1`."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the build."""
        return {"GOTOOLCHAIN": self.toolchain} if self.toolchain else {}

    def digested(self) -> str:
        """Return what distinguishes this variant in the name of the cached program."""
        return "" if self == DEFAULT_VARIANT else repr(self)


DEFAULT_VARIANT = GoVariant()


def go_program(
    name: str,
    source: Path,
    *,
    package: str = ".",
    tags: str = "",
    variant: GoVariant = DEFAULT_VARIANT,
    notice: str = "",
) -> Path:
    """Build a program of a module, by default of its root package; OSError, SubprocessError.

    `tags` are Go's build tags, separated by commas. `notice` is printed before a build.
    """
    flags = (*_FLAGS, f"-tags={tags}", f"-modfile={variant.module_file}")

    def build(directory: Path) -> None:
        if notice:
            announce_on_stderr(notice)
        subprocess.run(  # noqa: S603 - this repository's sources, by the toolchain on the PATH
            ["go", "build", *flags, "-o", directory / name, package],  # noqa: S607
            cwd=source,
            env=os.environ | _ENVIRONMENT | variant.environment(),
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=True,
        )

    digest = _source_digest(source, package + tags + variant.digested())
    return build_once(f"{name}-{digest}", build) / name


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
    for path in sorted([*source.glob("*.go"), *source.glob("*.mod"), *source.glob("*.sum")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
