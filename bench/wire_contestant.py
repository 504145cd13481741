"""Our wire code alone, as a contestant: how much of our cost no decision and no count adds to."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contestants import Contestant, Entry, wait_until_serving
from bench.peers.listening import wait_for_address
from bench.stage import WANTED, Stage
from proxy.sandbox.processes import start_child


@contextmanager
def _start(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    certificate, key = stage.issue_serving(entry.name)
    process = start_child(
        [
            sys.executable,
            "-m",
            "bench.wire_alone",
            f"--upstream={stage.upstream_url}",
            f"--authority={stage.authority_file}",
            f"--certificate={certificate}",
            f"--key={key}",
            f"--own-token-file={stage.own_token_file}",
            f"--acting={WANTED}",
        ],
        log_file=stage.directory / f"{entry.name}.log",
    )
    try:
        address = wait_for_address(process)
        wait_until_serving(address, stage, process)
        yield Contestant(entry, address, process.pid)
    finally:
        process.stop()


WIRE = Entry(
    "wire",
    "our TLS, sockets and event loop alone: bytes pass, nobody is asked who they are, nothing is"
    " decided, counted or logged",
    _start,
    acting=WANTED,
)
