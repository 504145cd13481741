"""Stock aiohttp as a proxy, which shows what a framework costs in our own language."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contestants import Contestant, Entry, wait_until_serving
from bench.peers.listening import wait_for_address
from bench.stage import CALLER, Stage
from proxy.sandbox.processes import start_child


@contextmanager
def _proxy(entry: Entry, stage: Stage) -> Iterator[Contestant]:
    certificate, key = stage.issue_serving(entry.name)
    process = start_child(
        [
            sys.executable,
            "-m",
            "bench.peers.aiohttp_proxy",
            f"--upstream={stage.upstream_url}",
            f"--authority={stage.authority_file}",
            f"--certificate={certificate}",
            f"--key={key}",
            f"--own-token-file={stage.own_token_file}",
            f"--client-token-file={stage.client_token_file}",
            f"--caller={CALLER}",
        ],
        log_file=stage.directory / f"{entry.name}.log",
    )
    try:
        address = wait_for_address(process)
        wait_until_serving(address, stage, process)
        yield Contestant(entry, address, process.pid)
    finally:
        process.stop()


AIOHTTP = Entry(
    "aiohttp",
    "stock aiohttp, server and client, as it comes: token look-up and header rewrite like"
    " go-default; no decision, audit, metrics or log",
    _proxy,
)
