"""Go's own verification of chains as a program on a pipe; its source is in `chain_oracle/`.

with running_chain_oracle() as oracle:
    oracle.verify(chain, roots)         # as kube-apiserver would, without one
    oracle.show(server.url, chain, key) # to a server, in a real handshake
"""

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tests.support.build_once import built_by_go

SOURCE = Path(__file__).with_name("chain_oracle")


@dataclass(frozen=True, slots=True)
class Verified:
    """What Go makes of a chain."""

    is_accepted: bool
    name: str
    groups: list[str]
    error: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a server tells a client with this chain; status 0 is a handshake that failed."""

    status: int
    user: dict[str, Any] | None
    error: str


@dataclass(frozen=True, slots=True)
class ChainOracle:
    """The running program."""

    asks: IO[bytes]
    answers: IO[bytes]

    def verify(self, chain: Sequence[bytes], roots: Sequence[bytes]) -> Verified:
        """Have Go verify a chain."""
        told = self._ask({"chain": _encoded(chain), "roots": _encoded(roots)})
        groups = told["groups"] or []
        return Verified(told["status"] == 200, told["name"], groups, told["error"])

    def show(
        self, url: str, chain: Sequence[bytes], key: PrivateKeyTypes, *, token: str = ""
    ) -> Told:
        """Ask a server who one is, with a chain and the key of its first certificate."""
        private = key.private_bytes(
            serialization.Encoding.DER,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        question = {"url": url, "chain": _encoded(chain), "key": _text(private), "token": token}
        told = self._ask(question)
        return Told(told["status"], told.get("user"), told["error"])

    def _ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        self.asks.write(json.dumps(question).encode() + b"\n")
        self.asks.flush()
        answer: dict[str, Any] = json.loads(self.answers.readline())
        return answer


def chain_oracle_program() -> Path:
    """Return the program, built once for its sources; skip or fail the test if Go cannot."""
    return built_by_go("chain-oracle", SOURCE)


@contextmanager
def running_chain_oracle() -> Iterator[ChainOracle]:
    """Run the program for the time of the context."""
    with subprocess.Popen(
        [chain_oracle_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield ChainOracle(process.stdin, process.stdout)
        finally:
            process.stdin.close()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _encoded(certificates: Sequence[bytes]) -> list[str]:
    return [_text(one) for one in certificates]
