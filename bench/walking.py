"""Load that goes on turn after turn over connections that stay open, over one name or many.

    with walking(program, way, seconds=0.3) as walk:
        turn = walk.turn(pid)       # one turn, and the CPU of that process meanwhile

Turns can be short and alternate quickly, so that whatever else the machine does meets everybody.
"""

import json
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.cpu_time import fine_cpu_seconds
from bench.measurement import LoadReport, WrongAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What is asked, of whom, by whom."""

    address: str
    authority_file: Path
    token_file: Path
    target: str
    connections: int
    wanted: str | None = None
    groups: int = 0
    first: int = 0
    names: int = 0
    """How many names below the target are asked for, each in its turn; 0: the target alone."""

    def options(self) -> list[str]:
        """Return the load generator's options."""
        return [
            f"--address={self.address}",
            f"--authority={self.authority_file}",
            f"--token-file={self.token_file}",
            f"--target={self.target}",
            f"--connections={self.connections}",
            f"--groups={self.groups}",
            f"--first={self.first}",
            f"--names={self.names}",
            *([] if self.wanted is None else [f"--as={self.wanted}"]),
        ]


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of one turn."""

    requests: int
    cpu_microseconds: float
    p50_microseconds: float
    p99_microseconds: float
    body_digest: str


class Walk:
    """A load generator that is connected and warm, and idle between its turns."""

    def __init__(self, generator: "subprocess.Popen[str]") -> None:
        self._generator = generator
        if self._read() != "ready\n":
            raise self._failure()

    def turn(self, pid: int) -> Turn:
        """Go for one turn; WrongAnswer if any answer was not the expected one."""
        assert self._generator.stdin is not None
        started = fine_cpu_seconds(pid)
        self._generator.stdin.write("go\n")
        self._generator.stdin.flush()
        line = self._read()
        used = fine_cpu_seconds(pid) - started
        if not line:
            raise self._failure()
        told: LoadReport = json.loads(line)
        return Turn(
            told["requests"],
            used / told["requests"] * 1e6,
            told["p50Microseconds"],
            told["p99Microseconds"],
            told["bodySHA256"],
        )

    def _read(self) -> str:
        assert self._generator.stdout is not None
        return self._generator.stdout.readline()

    def _failure(self) -> WrongAnswer:
        assert self._generator.stderr is not None
        return WrongAnswer(self._generator.stderr.read().strip())


@contextmanager
def walking(program: Path, way: Way, *, seconds: float) -> Iterator[Walk]:
    """Connect, ask for every name once, and be ready for turns of that length."""
    pipe = subprocess.PIPE
    command = [str(program), "walk", *way.options(), f"--seconds={seconds}"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as generator:
        try:
            yield Walk(generator)
        finally:
            # It ends with its input.
            assert generator.stdin is not None
            generator.stdin.close()


def quiet_mean(costs: Sequence[float]) -> float:
    """Return the mean of the cheaper half of some turns.

    What others do on the machine makes a turn dearer and never cheaper, so the cheaper half is
    where least of it is.
    """
    ordered = sorted(costs)
    return statistics.mean(ordered[: (len(ordered) + 1) // 2])
