"""What is asked of both sides: runs of requests, with the policy that answers their checks."""

import base64
import json
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

from proxy.core.userinfo import UserInfo

Header = tuple[bytes, bytes]
Decision = Literal["allow", "deny", "no-opinion"]


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One reply of an authorizer; native looks at the decision first, then at the error."""

    decision: Decision
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """The whole policy of one request, as a pure function of what a check asks."""

    salt: str
    action: tuple[ScriptedAnswer, ...]
    identity: tuple[ScriptedAnswer, ...]
    legacy: tuple[ScriptedAnswer, ...]

    def answer(self, verb: str, *what: str) -> ScriptedAnswer:
        """Return the reply to one check; the Go side computes the same.

        `what` is group, resource, subresource, namespace, name and, for a path only, the path.
        """
        answers = self.identity
        if verb == "impersonate":
            answers = self.legacy
        elif verb.startswith("impersonate-on:"):
            answers = self.action
        asked = "\0".join((self.salt, verb, *what))
        return answers[crc32(asked.encode("utf-8", "surrogateescape")) % len(answers)]


@dataclass(frozen=True, slots=True)
class Step:
    """One request and the caller it comes from. Odd lines stand in the head exactly as they are."""

    method: bytes
    target: bytes
    headers: tuple[Header, ...]
    requestor: UserInfo
    script: Script
    version: bytes = b"HTTP/1.1"
    odd_lines: bytes = b""

    @property
    def head(self) -> bytes:
        """The request as a client writes it."""
        lines = [b"%b %b %b" % (self.method, self.target, self.version)]
        lines += [b"%b: %b" % header for header in self.headers]
        return b"\r\n".join((*lines, self.odd_lines)) + b"\r\n"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Requests through one filter, which remembers modes and successes from one to the next.

    `protects_masters` is a switch of ours alone: native knows no protected groups.
    """

    constrained: bool
    steps: tuple[Step, ...]
    protects_masters: bool = False


def encode_batch(sequences: list[Sequence], quotes: list[bytes], *, shuffle: bool) -> bytes:
    """Return one line for the oracle."""
    return (
        json.dumps(
            {
                "sequences": [
                    _encode_sequence(sequence, shuffle=shuffle) for sequence in sequences
                ],
                "quotes": [base64.b64encode(text).decode() for text in quotes],
            },
            separators=(",", ":"),
        ).encode()
        + b"\n"
    )


def _encode_sequence(sequence: Sequence, *, shuffle: bool) -> dict[str, object]:
    return {
        "constrained": sequence.constrained,
        "shuffle": shuffle,
        "steps": [_encode_step(step) for step in sequence.steps],
    }


def _encode_step(step: Step) -> dict[str, object]:
    requestor = step.requestor
    script = step.script
    return {
        "head": base64.b64encode(step.head).decode(),
        "requestor": {
            "name": requestor.name,
            "uid": requestor.uid,
            "groups": requestor.groups,
            "extra": dict(requestor.extra),
        },
        "answers": {
            "salt": script.salt,
            "action": [_encode_answer(answer) for answer in script.action],
            "identity": [_encode_answer(answer) for answer in script.identity],
            "legacy": [_encode_answer(answer) for answer in script.legacy],
        },
    }


def _encode_answer(answer: ScriptedAnswer) -> dict[str, str]:
    return {"decision": answer.decision, "reason": answer.reason, "error": answer.error}
