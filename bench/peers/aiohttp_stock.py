"""Stock aiohttp as a proxy, which shows the cost of a framework in the same language."""

from contextlib import AbstractContextManager

from bench.contestants import Contestant, Entry
from bench.peers.python_program import running_program
from bench.stage import CALLER, Stage


def _proxy(entry: Entry, stage: Stage) -> AbstractContextManager[Contestant]:
    return running_program(
        "bench.peers.aiohttp_proxy",
        f"--client-token-file={stage.client_token_file}",
        f"--caller={CALLER}",
        entry=entry,
        stage=stage,
    )


AIOHTTP = Entry(
    "aiohttp",
    "stock aiohttp, server and client, with defaults: token lookup and header rewrite like"
    " go-default; no decision, audit, metrics or log",
    _proxy,
)
