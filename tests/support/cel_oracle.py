"""The Kubernetes CEL environment as a program on a pipe; its source is in `tests/cel_oracle/`.

with running_cel_oracle() as oracle:
    answer = oracle.ask([{"expression": "object.a == 1", "inputs": [{"object": {"a": 1}}]}])[0]
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NotRequired, TypedDict, cast

from proxy.sandbox.programs.go_program import go_program

SOURCE = Path(__file__).parent.parent / "cel_oracle"


class Question(TypedDict):
    expression: str
    inputs: list[dict[str, object]]


class Outcome(TypedDict):
    value: NotRequired[object]
    error: NotRequired[str]
    cost: int


class Answer(TypedDict):
    compileError: NotRequired[str]
    programError: NotRequired[str]
    type: NotRequired[str]
    outcomes: list[Outcome]


class SpecificationVariable(TypedDict):
    name: str
    type: str


class SpecificationTest(TypedDict):
    file: str
    section: str
    name: str
    expression: str
    container: NotRequired[str]
    variables: NotRequired[list[SpecificationVariable]]
    functions: NotRequired[int]
    noMacros: NotRequired[bool]
    checkOnly: NotRequired[bool]
    bindings: NotRequired[dict[str, list[object]]]
    unreadable: NotRequired[str]
    wantValue: NotRequired[list[object]]
    wantError: NotRequired[bool]
    kubernetes: Answer


class Declaration(TypedDict):
    name: str
    id: str
    member: bool
    args: list[str]
    result: str


class CelOracle:
    """Answers batches in the order they are sent."""

    def __init__(self, questions: IO[bytes], answers: IO[bytes]) -> None:
        self._questions = questions
        self._answers = answers

    def ask(self, questions: list[Question]) -> list[Answer]:
        """Return what each expression is and evaluates to."""
        return cast("list[Answer]", self._exchange({"questions": questions})["answers"])

    def specification(self) -> list[SpecificationTest]:
        """Return the tests of the specification, with what Kubernetes makes of each."""
        directory = specification_directory()
        found = self._exchange({"specification": str(directory)})["tests"]
        return cast("list[SpecificationTest]", found)

    def declarations(self) -> list[Declaration]:
        """Return every overload of the environment."""
        found = self._exchange({"declarations": True})["declarations"]
        return cast("list[Declaration]", found)

    def _exchange(self, batch: Mapping[str, object]) -> dict[str, object]:
        self._questions.write(json.dumps(batch).encode() + b"\n")
        self._questions.flush()
        line = self._answers.readline()
        if not line:
            raise EOFError("the oracle ended; its last words are on stderr")
        answered: dict[str, object] = json.loads(line)
        return answered


def specification_directory() -> Path:
    """Return the directory with the specification's tests, downloaded as part of a Go module."""
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOWORK": "off"}
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", "cel.dev/expr"],
        cwd=SOURCE,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip()) / "tests" / "simple" / "testdata"


@contextmanager
def running_cel_oracle() -> Iterator[CelOracle]:
    """Start the oracle, built on first use; it ends with the block, also after an error."""
    program = go_program("cel-oracle", SOURCE)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield CelOracle(process.stdin, process.stdout)
        finally:
            process.kill()
