"""Starting a proxy that is a Python module of the benchmark, with common options."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contestants import Contestant, Entry, wait_until_serving
from bench.peers.listening import wait_for_address
from bench.stage import Stage
from proxy.sandbox.processes import start_child


@contextmanager
def running_program(module: str, *options: str, entry: Entry, stage: Stage) -> Iterator[Contestant]:
    """Run a module as a contestant, with the common options and its own."""
    certificate, key = stage.issue_serving(entry.name)
    process = start_child(
        [
            sys.executable,
            "-m",
            module,
            f"--upstream={stage.upstream_url}",
            f"--authority={stage.authority_file}",
            f"--certificate={certificate}",
            f"--key={key}",
            f"--own-token-file={stage.own_token_file}",
            *options,
        ],
        log_file=stage.directory / f"{entry.name}.log",
    )
    try:
        address = wait_for_address(process)
        wait_until_serving(address, stage, process)
        yield Contestant(entry, address, process.pid)
    finally:
        process.stop()
