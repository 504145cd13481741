"""kubectl 1.20, the oldest client we promise to serve, from Debian's kubernetes-client package."""

import subprocess
import tempfile
from pathlib import Path

from proxy.sandbox.programs.go_program import build_once
from tests.support.build_once import report_missing

PACKAGE = "kubernetes-client"
VERSION = "v1.20."


class OldKubectlUnavailable(Exception):
    """kubectl 1.20 cannot be had on this machine."""


def old_kubectl() -> Path:
    """Return kubectl 1.20, fetched once; skip the test without it, or fail it where CI=true."""
    try:
        return build_once("kubectl-1.20", _unpack_package) / "usr" / "bin" / "kubectl"
    except OldKubectlUnavailable as unavailable:
        report_missing(f"no kubectl 1.20: {unavailable}")


def _unpack_package(directory: Path) -> None:
    """Unpack the package there, as an ordinary user: nothing is installed."""
    with tempfile.TemporaryDirectory() as scratch:
        package = _download_package(Path(scratch))
        _run("dpkg-deb", "-x", str(package), str(directory), directory=directory)
    version = _run("usr/bin/kubectl", "version", "--client", "--short", directory=directory)
    if VERSION not in version:
        raise OldKubectlUnavailable(f"{PACKAGE} here is {version.strip()}")


def _download_package(directory: Path) -> Path:
    try:
        _run("apt-get", "-q", "download", PACKAGE, directory=directory)
    except OldKubectlUnavailable:
        # A machine without package lists (most images) gets lists of its own in here.
        _run(*_apt_with_own_lists(directory), "update", directory=directory)
        _run(*_apt_with_own_lists(directory), "download", PACKAGE, directory=directory)
    return next(directory.glob(f"{PACKAGE}_*.deb"))


def _apt_with_own_lists(directory: Path) -> tuple[str, ...]:
    state = directory / "apt"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    settings = (f"Dir::State={state}", f"Dir::Cache={state}", "Dir::State::status=/dev/null")
    return ("apt-get", "-q", *(word for setting in settings for word in ("-o", setting)))


def _run(*command: str, directory: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=120, check=True
        )
    except subprocess.CalledProcessError as error:
        raise OldKubectlUnavailable(f"{' '.join(command)}: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OldKubectlUnavailable(str(error)) from error
    return done.stdout
