"""The load generator, a Go program, as a process that is told when to go on.

It connects and says `ready`. In a turn, which begins when it is told, it warms up, says `ready`,
goes on when it is told again, and tells what came of it. Between turns its connections stay open
and idle, so turns may be short and contestants take turns quickly.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict

from bench.measurement import WrongAnswer

_LONGEST_IDLE_SECONDS = 30.0


class LoadReport(TypedDict):
    """What the load generator tells of one turn."""

    requests: int
    seconds: float
    p50Microseconds: float
    p99Microseconds: float


class Generator:
    """The load generator at work for one contestant."""

    def __init__(self, process: "subprocess.Popen[str]", name: str) -> None:
        self._process = process
        self._name = name

    def turn(self, cpu_seconds: Callable[[], float]) -> tuple[LoadReport, float]:
        """Have it send for a turn; return what it tells, and the CPU that was used meanwhile."""
        self.go_on()
        self.wait_until_ready()
        started = cpu_seconds()
        self.go_on()
        told = self.report()
        return told, cpu_seconds() - started

    def wait_until_ready(self) -> None:
        """Wait until it is."""
        if self._read() != "ready\n":
            raise self._failure()

    def go_on(self) -> None:
        """Tell it to go on."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("go on\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure() from error

    def report(self) -> LoadReport:
        """Return what it tells at the end of a turn; WrongAnswer if any answer was wrong."""
        line = self._read()
        if not line:
            raise self._failure()
        told: LoadReport = json.loads(line)
        return told

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _failure(self) -> WrongAnswer:
        # It ends by itself, having said why.
        assert self._process.stderr is not None
        return WrongAnswer(f"{self._name}: {self._process.stderr.read().strip()}")


def start_generator(command: Sequence[str], name: str) -> Generator:
    """Start the load generator for the contestant of that name; it is connected then."""
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
    """Run a load generator for the time of the context."""
    generator = start_generator(command, name)
    try:
        yield generator
    finally:
        generator.close()


@dataclass(slots=True)
class Generators:
    """Load generators that are kept between turns: all of the same kind, one for each contestant.

    Rows are played one after the other, so when another kind is asked for the others are over. Who
    has not had a turn for long is connected anew: servers close connections that idle.
    """

    clock: Callable[[], float] = time.monotonic
    _kind: object = None
    _running: dict[object, tuple[Generator, float]] = field(default_factory=dict)

    def keep(self, kind: object, owner: object, start: Callable[[], Generator]) -> Generator:
        """Return the generator of that kind for a contestant, started if need be."""
        if kind != self._kind:
            self.close()
            self._kind = kind
        generator, used_at = self._running.pop(owner, (None, 0.0))
        if generator is not None and self.clock() - used_at > _LONGEST_IDLE_SECONDS:
            generator.close()
            generator = None
        if generator is None:
            generator = start()
        self._running[owner] = generator, self.clock()
        return generator

    def close(self) -> None:
        """End all of them."""
        for generator, _ in self._running.values():
            generator.close()
        self._running.clear()
