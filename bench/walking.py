"""Load in short turns over connections that stay open, for one object name or for many.

    with Walks(program) as walks:
        walk = walks.to(way)                # connected, and every name requested once
        step = walk.turn(0.2, pid)         # load, and the CPU of that process meanwhile

Turns may be short and alternate quickly, so that other load of the machine affects all equally.
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
class LoadTarget:
    """The requests of a load generator: address, credential, target."""

    address: str
    authority_file: Path
    token_file: Path
    connections: int
    target: str
    body_sha256: str = ""
    """The expected digest of every body; if empty, that of the Go upstream's object."""
    wanted: str = ""
    groups: int = 0
    first: int = 0
    names: int = 0
    """How many names below the target are requested, in rotation; 0: the target alone."""

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
    """The result of one turn of load: the generator's report, and the CPU cost."""

    report: LoadReport
    cpu_microseconds: float
    """CPU time of the process, per request."""


class PersistentGenerator:
    """A load generator that is connected and warmed up, and idle between its turns."""

    def __init__(self, program: Path, way: LoadTarget) -> None:
        pipe = subprocess.PIPE
        self._generator = subprocess.Popen(
            [str(program), "walk", *way.options()], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        if self._read() != "ready\n":
            raise self._failure()

    def turn(self, seconds: float, pid: int) -> Step:
        """Send requests for that long; WrongAnswer if any response was wrong."""
        assert self._generator.stdin is not None
        started = cpu_seconds(pid)
        self._generator.stdin.write(f"{seconds}\n")
        self._generator.stdin.flush()
        line = self._read()
        used = cpu_seconds(pid) - started
        if not line:
            raise self._failure()
        report: LoadReport = json.loads(line)
        return Step(report, used / report["requests"] * 1e6)

    def close(self) -> None:
        """Stop the load generator."""
        self._generator.kill()
        with self._generator:
            pass  # leaving closes its pipes and waits for it

    def _read(self) -> str:
        assert self._generator.stdout is not None
        return self._generator.stdout.readline()

    def _failure(self) -> WrongAnswer:
        # It exits by itself, after writing the reason to stderr.
        _, message = self._generator.communicate()
        return WrongAnswer(message.strip())


class PersistentGenerators:
    """All load generators of a scene, each started when it is first needed. A context manager."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._walks: dict[LoadTarget, PersistentGenerator] = {}
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

    def has(self, way: LoadTarget) -> bool:
        """Return whether a generator for this load exists, and so has requested all its names."""
        return way in self._walks

    def to(self, way: LoadTarget) -> PersistentGenerator:
        """Return the load generator for this load, started if necessary."""
        walk = self._walks.get(way)
        if walk is None:
            walk = self._walks[way] = PersistentGenerator(self._program, way)
            self._cleanup.callback(walk.close)
        return walk


def quiet_mean(costs: Sequence[float]) -> float:
    """Return the mean of the cheapest quarter of some short turns.

    Other load of the machine makes a turn more expensive and never cheaper, so the cheapest turns
    are those with the least of it. On a busy machine this halved the error of a difference,
    compared with means of all turns.
    """
    return statistics.mean(sorted(costs)[: math.ceil(len(costs) / 4)])
