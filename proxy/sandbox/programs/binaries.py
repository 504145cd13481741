"""Binaries of the control plane: find, download or build them.

    binaries = find_binaries()          # progress goes to standard error
    binaries.kubectl, binaries.origin

Sources, in order: `$KUBEBUILDER_ASSETS`; the cache; the official envtest archive; a Go build of the
pinned module in this directory. The last two fill the cache, so they run once per machine and never
concurrently. If every source fails, the error has one line for each.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.programs.cache import (
    ETCD,
    KUBE_APISERVER,
    KUBECTL,
    PROGRAMS,
    Announce,
    cache_directory,
    exclusive,
)
from proxy.sandbox.programs.envtest_archive import download_programs
from proxy.sandbox.programs.go_build import build_digest, build_programs

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
STAMP = "stamp"
RUN_SECONDS = 10.0

# Puts all programs into a directory, and returns their origin.
Fill = Callable[[Path, Announce], str]
_Source = tuple[str, Callable[[], "Binaries"]]


@dataclass(frozen=True, slots=True)
class Binaries:
    """The three programs, and a description of their origin."""

    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    origin: str


def announce_on_stderr(line: str) -> None:
    """Print a line of progress on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def find_binaries(announce: Announce = announce_on_stderr) -> Binaries:
    """Return the programs of the first working source; raise SandboxError that names every one."""
    failures: list[str] = []
    cache = ("cache", _from_cache)
    found = _first([(f"${ASSETS_VARIABLE}", _from_assets), cache], failures)
    if found is not None:
        return found
    try:
        with exclusive(cache_directory(), announce):
            # The previous holder of the lock may have filled the cache.
            found = _first([cache], []) or _first(_fill_sources(announce), failures)
    except OSError as error:
        failures.append(f"writing the cache: {error}")
    if found is None:
        raise SandboxError("\n  ".join(["no control plane, every source failed:", *failures]))
    return found


def _fill_sources(announce: Announce) -> list[_Source]:
    return [
        ("envtest archive", partial(_fill_cache, download_programs, announce)),
        ("build by Go", partial(_fill_cache, build_programs, announce)),
    ]


def _first(sources: Sequence[_Source], failures: list[str]) -> Binaries | None:
    """Return the result of the first working source; add a line for each failed one."""
    for name, source in sources:
        try:
            return source()
        except SandboxError as failure:
            failures.append(f"{name}: {failure}")
    return None


def _from_assets() -> Binaries:
    value = os.environ.get(ASSETS_VARIABLE)
    if not value:
        raise SandboxError("not set")
    directory = Path(value)
    _require_programs(directory)
    version = _version_of(directory / KUBE_APISERVER)
    return _binaries(directory, origin=f"{version} from ${ASSETS_VARIABLE} ({directory})")


def _from_cache() -> Binaries:
    directory = cache_directory()
    _require_programs(directory)
    try:
        made_by, _, origin = (directory / STAMP).read_text().strip().partition("\n")
    except OSError as error:
        raise SandboxError(f"{directory} has no stamp file") from error
    if made_by != build_digest():
        raise SandboxError(f"{directory} was built from other sources or flags")
    return _binaries(directory, origin=f"{origin} ({directory})")


def _fill_cache(fill: Fill, announce: Announce) -> Binaries:
    """Create the programs next to the cache, move them in, and write the stamp last.

    Readers accept a cache with a valid stamp only, and each move is atomic. Neither a crash nor a
    concurrent reader can therefore see an incomplete program.
    """
    directory = cache_directory()
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".making-") as name:
        build_directory = Path(name)
        origin = fill(build_directory, announce)
        _require_programs(build_directory)
        (build_directory / STAMP).write_text(f"{build_digest()}\n{origin}\n")
        directory.mkdir(exist_ok=True)
        for each in (*PROGRAMS, STAMP):
            (build_directory / each).replace(directory / each)
    announce(f"control plane programs are ready in {directory}")
    return _binaries(directory, origin=f"{origin} ({directory})")


def _require_programs(directory: Path) -> None:
    missing = [
        name
        for name in PROGRAMS
        if not (directory / name).is_file() or not os.access(directory / name, os.X_OK)
    ]
    if missing:
        raise SandboxError(f"{directory} has no {', '.join(missing)}")


def _version_of(kube_apiserver: Path) -> str:
    """Return the version that the program reports; a binary for another platform fails here."""
    try:
        result = subprocess.run(  # noqa: S603 - the user named this program
            [kube_apiserver, "--version"], capture_output=True, check=True, timeout=RUN_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{kube_apiserver} does not run: {error}") from error
    return result.stdout.decode(errors="replace").strip()


def _binaries(directory: Path, *, origin: str) -> Binaries:
    return Binaries(
        etcd=directory / ETCD,
        kube_apiserver=directory / KUBE_APISERVER,
        kubectl=directory / KUBECTL,
        origin=origin,
    )
