"""The load generator, a Go program, as a child process that is controlled by lines on stdin.

It connects and prints `ready`. In a turn, which a line starts, it warms up and prints `ready`.
After another line it sends the load and prints a report. Between turns its connections stay open
and idle, so turns can be short and contestants alternate quickly.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict

from bench.measurement import WrongAnswer

_MAX_IDLE_SECONDS = 30.0


class LoadReport(TypedDict):
    """The load generator's report of one turn."""

    requests: int
    seconds: float
    p50Microseconds: float
    p99Microseconds: float


class Generator:
    """A running load generator for one contestant."""

    def __init__(self, process: "subprocess.Popen[str]", name: str) -> None:
        self._process = process
        self._name = name

    def turn(self, cpu_seconds: Callable[[], float]) -> tuple[LoadReport, float]:
        """Run one turn; return the report, and the CPU time that was used meanwhile."""
        self.start_phase()
        self.wait_until_ready()
        started = cpu_seconds()
        self.start_phase()
        report = self.report()
        return report, cpu_seconds() - started

    def wait_until_ready(self) -> None:
        """Wait until it prints `ready`; WrongAnswer if it exits."""
        if self._read() != "ready\n":
            raise self._failure()

    def start_phase(self) -> None:
        """Start the next phase."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("go on\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure() from error

    def report(self) -> LoadReport:
        """Return the report at the end of a turn; WrongAnswer if any response was wrong."""
        line = self._read()
        if not line:
            raise self._failure()
        report: LoadReport = json.loads(line)
        return report

    def close(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _failure(self) -> WrongAnswer:
        # It exits by itself, after writing the reason to stderr.
        assert self._process.stderr is not None
        return WrongAnswer(f"{self._name}: {self._process.stderr.read().strip()}")


def start_generator(command: Sequence[str], name: str) -> Generator:
    """Start a load generator for the contestant of that name, and wait until it is connected."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    generator = Generator(process, name)
    try:
        generator.wait_until_ready()
    except WrongAnswer:
        generator.close()
        raise
    return generator


@contextmanager
def generating(command: Sequence[str], name: str) -> Iterator[Generator]:
    """Run a load generator for the duration of the context."""
    generator = start_generator(command, name)
    try:
        yield generator
    finally:
        generator.close()


@dataclass(slots=True)
class Generators:
    """Load generators that are kept between turns: all of the same kind, one for each contestant.

    Rows run one after the other, so a new kind means that the others are finished. A generator that
    was idle for long is restarted, because servers close idle connections.
    """

    clock: Callable[[], float] = time.monotonic
    _kind: object = None
    _running: dict[object, tuple[Generator, float]] = field(default_factory=dict)

    def keep(self, kind: object, owner: object, start: Callable[[], Generator]) -> Generator:
        """Return the generator of that kind for a contestant, started if necessary."""
        if kind != self._kind:
            self.close()
            self._kind = kind
        generator, used_at = self._running.pop(owner, (None, 0.0))
        if generator is not None and self.clock() - used_at > _MAX_IDLE_SECONDS:
            generator.close()
            generator = None
        if generator is None:
            generator = start()
        self._running[owner] = generator, self.clock()
        return generator

    def close(self) -> None:
        """Stop all generators."""
        for generator, _ in self._running.values():
            generator.close()
        self._running.clear()
