"""The native server's own code as a program on a pipe; its source is in `tests/go_oracle/`.

with running_oracle() as oracle:
    outcomes = oracle.ask([sequence])[0]
"""

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypedDict

from proxy.sandbox.programs.go_program import go_program
from tests.go_oracle.cases import Sequence, encode_batch

SOURCE = Path(__file__).parent.parent / "go_oracle"


class NamedValues(TypedDict):
    name: str
    values: list[str]


class NativeIdentity(TypedDict):
    name: str
    uid: str
    groups: list[str]
    extra: list[NamedValues]


class FieldRequirement(TypedDict):
    key: str
    operator: str
    value: str


class LabelRequirement(TypedDict):
    key: str
    operator: str
    values: list[str]
    text: str


class Attributes(TypedDict):
    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    path: str
    isResource: bool
    fields: list[FieldRequirement] | None
    fieldsError: bool
    labels: list[LabelRequirement] | None
    labelsError: bool


class NativeCheck(Attributes):
    user: NativeIdentity


class NativeHead(TypedDict):
    method: str
    requestURI: str
    path: str
    headers: list[NamedValues]


class Outcome(TypedDict):
    """Everything one request brought about natively; what was not reached is None.

    Bytes that are not UTF-8 are lone surrogates, as `surrogateescape` makes them.
    """

    status: int
    contentType: str
    body: str
    noSniff: bool
    read: NativeHead | None
    attributes: Attributes | None
    longRunning: bool
    checks: list[NativeCheck] | None
    ranAs: NativeIdentity | None
    constraint: str


class Results(TypedDict):
    sequences: list[list[Outcome]]
    quotes: list[str]


class Oracle:
    """Answers batches in the order they are sent."""

    def __init__(self, questions: IO[bytes], answers: IO[bytes]) -> None:
        self._questions = questions
        self._answers = answers

    def ask(self, sequences: list[Sequence], *, shuffle: bool = False) -> list[list[Outcome]]:
        """Return what each step of each sequence brings about.

        `shuffle` makes Go visit extra keys in any order, not only in rotations of the headers'.
        """
        self._send(encode_batch(sequences, [], shuffle=shuffle))
        return self._receive()["sequences"]

    def ask_ahead(
        self, batches: Iterable[list[Sequence]]
    ) -> Iterator[tuple[list[Sequence], list[list[Outcome]]]]:
        """Yield each batch with its outcomes, while the next one is already being answered.

        The oracle reads four batches ahead, so that two under way can never block each other.
        """
        waiting: list[Sequence] | None = None
        for batch in batches:
            self._send(encode_batch(batch, [], shuffle=False))
            if waiting is not None:
                yield waiting, self._receive()["sequences"]
            waiting = batch
        if waiting is not None:
            yield waiting, self._receive()["sequences"]

    def quote(self, texts: list[bytes]) -> list[str]:
        """Return each text as Go writes it with %q."""
        self._send(encode_batch([], texts, shuffle=False))
        return self._receive()["quotes"]

    def _send(self, line: bytes) -> None:
        self._questions.write(line)
        self._questions.flush()

    def _receive(self) -> Results:
        line = self._answers.readline()
        if not line:
            raise EOFError("the oracle ended; its last words are on stderr")
        results: Results = json.loads(line)
        return results


@contextmanager
def running_oracle() -> Iterator[Oracle]:
    """Start the oracle, built on first use; it ends with our block, and also if we crash."""
    with subprocess.Popen(
        [oracle_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Oracle(process.stdin, process.stdout)
        finally:
            # Not by closing its input: it may be writing answers that nobody waits for any more.
            process.kill()


def oracle_program() -> Path:
    """Return the program, built once for its sources; raises OSError or SubprocessError."""
    return go_program("oracle", SOURCE)
