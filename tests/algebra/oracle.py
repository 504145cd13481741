"""The published decision algebra as a program on a pipe, from `tests/go_oracle/algebra`.

with running_algebra(V0_38) as algebra:
    results = algebra.ask(nodes)
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypedDict

from proxy.core.authorization.rules import RULES_1_37, RULES_1_38, AlgebraRules
from proxy.sandbox.programs.go_program import DEFAULT_VARIANT, GoVariant, go_program
from tests.algebra.cases import Kind, Node

SOURCE = Path(__file__).parent.parent / "go_oracle" / "algebra"


class Dump(TypedDict):
    """A decision with everything that can be read from it."""

    kind: Kind
    reason: str
    error: str | None
    deny: list[str] | None
    noOpinion: list[str] | None
    allow: list[str] | None
    members: list["Dump"] | None
    name: str
    possible: list[str]
    failure: str
    isFinal: bool


class Triple(TypedDict):
    """An unconditional decision."""

    decision: str
    reason: str
    error: str | None


class Chained(TypedDict):
    """What a chain of the root's members decides."""

    newError: str | None
    asked: Dump | None
    askTrace: list[str] | None
    evaluated: Triple | None
    trace: list[str] | None
    afterPartial: Triple | None
    lateTrace: list[str] | None
    unaware: Triple | None


class Result(TypedDict):
    """Everything that was observed of one case."""

    built: Dump
    foldClosed: Triple | None
    foldError: Triple | None
    partial: Dump
    partialTrace: list[str]
    map: Triple | None
    mapTrace: list[str] | None
    chain: Chained | None


@dataclass(frozen=True, slots=True)
class Published:
    """A version of the published algebra, and the rules that must equal it."""

    version: str
    rules: AlgebraRules
    tags: str = ""
    variant: GoVariant = DEFAULT_VARIANT

    def program(self) -> Path:
        """Return the program, built once for its sources; raises OSError or SubprocessError."""
        return go_program("algebra", SOURCE, tags=self.tags, variant=self.variant)


V0_37 = Published("v0.37.1", RULES_1_37)
V0_38 = Published(
    "v0.38.0-alpha.2",
    RULES_1_38,
    tags="exported_folds",
    variant=GoVariant(module_file="v0.38.mod", toolchain="go1.27.1"),
)
PUBLISHED = (V0_37, V0_38)


class AlgebraOracle:
    """Answers batches in the order they are sent."""

    def __init__(self, questions: IO[bytes], answers: IO[bytes]) -> None:
        self._questions = questions
        self._answers = answers

    def ask(self, cases: list[Node]) -> list[Result]:
        """Return what the published code makes of each case."""
        self.send(cases)
        return self.receive()

    def send(self, cases: list[Node]) -> None:
        """Send a batch. At most one batch may be under way when the next is sent."""
        self._questions.write(json.dumps({"cases": cases}).encode() + b"\n")
        self._questions.flush()

    def receive(self) -> list[Result]:
        """Return the results of the oldest batch that is under way."""
        line = self._answers.readline()
        if not line:
            raise EOFError("the oracle ended; its last words are on stderr")
        results: list[Result] = json.loads(line)
        return results


@contextmanager
def running_algebra(published: Published) -> Iterator[AlgebraOracle]:
    """Start the program, built on first use; it ends with the block, also after an error."""
    with subprocess.Popen(
        [published.program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield AlgebraOracle(process.stdin, process.stdout)
        finally:
            process.kill()
