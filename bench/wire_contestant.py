"""Our wire code alone, as a contestant: how much of our cost no decision and no count adds to."""

from contextlib import AbstractContextManager

from bench.contestants import Contestant, Entry
from bench.peers.python_program import running_program
from bench.stage import WANTED, Stage


def _start(entry: Entry, stage: Stage) -> AbstractContextManager[Contestant]:
    return running_program("bench.wire_alone", f"--acting={WANTED}", entry=entry, stage=stage)


WIRE = Entry(
    "wire",
    "our TLS, sockets and event loop alone: bytes pass, nobody is asked who they are, nothing is"
    " decided, counted or logged",
    _start,
    acting=WANTED,
)
