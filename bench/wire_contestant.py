"""The proxy's wire code alone, as a contestant: the cost without authorization and metrics."""

from contextlib import AbstractContextManager

from bench.contestants import Contestant, Entry
from bench.peers.python_program import running_program
from bench.stage import WANTED, Stage


def _start(entry: Entry, stage: Stage) -> AbstractContextManager[Contestant]:
    return running_program("bench.wire_alone", f"--acting={WANTED}", entry=entry, stage=stage)


WIRE = Entry(
    "wire",
    "the proxy's TLS, sockets and event loop alone: bytes are relayed without authentication,"
    " authorization, metrics or logs",
    _start,
    impersonated_user=WANTED,
)
