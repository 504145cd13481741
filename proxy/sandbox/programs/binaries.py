"""Finding the control plane's programs, or making them.

    binaries = find_binaries()          # progress goes to standard error
    binaries.kubectl, binaries.origin

Ways, in order: `$KUBEBUILDER_ASSETS`; our cache; the official envtest archive; a build by Go from
the pinned module beside this file. The last two fill the cache, so they happen once per machine,
and never twice at a time. If no way works the error has one line for each.
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
from proxy.sandbox.programs.cache import cache_directory, exclusive
from proxy.sandbox.programs.envtest_archive import download_programs
from proxy.sandbox.programs.go_build import build_digest, build_programs
from proxy.sandbox.programs.versions import (
    ETCD,
    KUBE_APISERVER,
    KUBECTL,
    PROGRAMS,
    Announce,
)

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
STAMP = "stamp"
RUN_SECONDS = 10.0

# Puts all programs into a directory and returns where they came from.
Fill = Callable[[Path, Announce], str]
Way = tuple[str, Callable[[], "Binaries"]]


@dataclass(frozen=True, slots=True)
class Binaries:
    """The three programs, and in `origin` where they came from, for people."""

    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    origin: str


def announce_on_stderr(line: str) -> None:
    """Tell a person about progress."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def find_binaries(announce: Announce = announce_on_stderr) -> Binaries:
    """Return the programs by the first way that works; raise SandboxError naming every way."""
    failures: list[str] = []
    cache = ("cache", _from_cache)
    found = _first([(f"${ASSETS_VARIABLE}", _from_assets), cache], failures)
    if found is not None:
        return found
    try:
        with exclusive(cache_directory(), announce):
            # Whoever held the lock before us may have filled the cache meanwhile.
            found = _first([cache], []) or _first(_filling_ways(announce), failures)
    except OSError as error:
        failures.append(f"writing the cache: {error}")
    if found is None:
        raise SandboxError("\n  ".join(["no control plane, every way failed:", *failures]))
    return found


def _filling_ways(announce: Announce) -> list[Way]:
    return [
        ("envtest archive", partial(_fill_cache, download_programs, announce)),
        ("build by Go", partial(_fill_cache, build_programs, announce)),
    ]


def _first(ways: Sequence[Way], failures: list[str]) -> Binaries | None:
    """Return what the first working way finds; add a line for each that did not work."""
    for name, way in ways:
        try:
            return way()
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
        raise SandboxError(f"{directory} was not filled by us") from error
    if made_by != build_digest():
        raise SandboxError(f"{directory} was made by another recipe")
    return _binaries(directory, origin=f"{origin} ({directory})")


def _fill_cache(fill: Fill, announce: Announce) -> Binaries:
    """Make the programs beside the cache, move them in, and stamp the cache last.

    A reader takes a cache with a right stamp only, and each move is atomic, so neither a crash
    nor a reader at any moment can meet a half-made program.
    """
    directory = cache_directory()
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".making-") as name:
        workshop = Path(name)
        origin = fill(workshop, announce)
        _require_programs(workshop)
        (workshop / STAMP).write_text(f"{build_digest()}\n{origin}\n")
        directory.mkdir(exist_ok=True)
        for each in (*PROGRAMS, STAMP):
            (workshop / each).replace(directory / each)
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
    """Return what the program says of itself; a program for another machine fails here."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user named this program
            [kube_apiserver, "--version"], capture_output=True, check=True, timeout=RUN_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{kube_apiserver} does not run: {error}") from error
    return answer.stdout.decode(errors="replace").strip()


def _binaries(directory: Path, *, origin: str) -> Binaries:
    return Binaries(
        etcd=directory / ETCD,
        kube_apiserver=directory / KUBE_APISERVER,
        kubectl=directory / KUBECTL,
        origin=origin,
    )
