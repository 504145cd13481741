"""Load that comes in turns over connections that stay open, for one name or for many.

    with Walks(program) as walks:
        walk = walks.to(way)                # connected, and every name asked for once
        step = walk.turn(0.2, pid)         # of load, and the CPU of that process meanwhile

Turns may be short and alternate quickly, so that whatever else the machine does meets everybody.
"""

import json
import math
import statistics
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.generator import LoadReport
from bench.measurement import WrongAnswer
from bench.process_cost import cpu_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What is asked, of whom, by whom."""

    address: str
    authority_file: Path
    token_file: Path
    connections: int
    target: str
    body_sha256: str = ""
    """What every body must be; if empty, the object of the Go upstream."""
    wanted: str = ""
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
            f"--body-sha256={self.body_sha256}",
            f"--as={self.wanted}",
            f"--groups={self.groups}",
            f"--first={self.first}",
            f"--names={self.names}",
        ]


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one turn of load: what was answered, and what it cost."""

    told: LoadReport
    cpu_microseconds: float
    """Of CPU of the process, for a request."""


class Walk:
    """A load generator that is connected and warm, and idle between its turns."""

    def __init__(self, program: Path, way: Way) -> None:
        pipe = subprocess.PIPE
        self._generator = subprocess.Popen(
            [str(program), "walk", *way.options()], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        if self._read() != "ready\n":
            raise self._failure()

    def turn(self, seconds: float, pid: int) -> Step:
        """Ask for that long; WrongAnswer if any answer was not the expected one."""
        assert self._generator.stdin is not None
        started = cpu_seconds(pid)
        self._generator.stdin.write(f"{seconds}\n")
        self._generator.stdin.flush()
        line = self._read()
        used = cpu_seconds(pid) - started
        if not line:
            raise self._failure()
        told: LoadReport = json.loads(line)
        return Step(told, used / told["requests"] * 1e6)

    def close(self) -> None:
        """End the load generator."""
        self._generator.kill()
        with self._generator:
            pass  # leaving closes its pipes and waits for it

    def _read(self) -> str:
        assert self._generator.stdout is not None
        return self._generator.stdout.readline()

    def _failure(self) -> WrongAnswer:
        # It ends by itself, having said why.
        _, said = self._generator.communicate()
        return WrongAnswer(said.strip())


class Walks:
    """All load generators of a scene, each started when it is first needed. A context manager."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._walks: dict[Way, Walk] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    def has(self, way: Way) -> bool:
        """Tell whether somebody went this way already, and so has asked for all its names."""
        return way in self._walks

    def to(self, way: Way) -> Walk:
        """Return the load generator that goes this way."""
        walk = self._walks.get(way)
        if walk is None:
            walk = self._walks[way] = Walk(self._program, way)
            self._cleanup.callback(walk.close)
        return walk


def quiet_mean(costs: Sequence[float]) -> float:
    """Return the mean of the cheapest quarter of some short turns.

    What others do on the machine makes a turn dearer and never cheaper, so the cheapest are those
    with least of it. On a busy machine that halved the error of a difference beside means of all.
    """
    return statistics.mean(sorted(costs)[: math.ceil(len(costs) / 4)])
