"""One command line at two doors of one cluster: the client must say the same, byte for byte.

    doors = BothDoors(partial(Kubectl, program), understudy.process, native_api_server)
    said = doors.say(alice, "get", "pods", "-n", "default")

What no two runs of one command share is masked: times, uids, revisions, the door's own address. So
is the one deviation that kubectl prints: the warning of a denied discovery request.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Protocol

from proxy.sandbox.identities import Credential
from tests.support.control_plane import fresh_name
from tests.support.impersonation import Caller
from tests.support.kubectl import Kubectl, RunningKubectl

MASKS = tuple(
    (re.compile(pattern, re.MULTILINE), mask)
    for pattern, mask in (
        # kubectl's own log: level and date, time, and a process id.
        (r"^([EIW])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", r"\1 "),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"(\"?resourceVersion\"?: ?)\"\d+\"", r'\1"REVISION"'),
        (r"(?<=\s)(\d+[dhms]){1,2}$", "AGE"),
        # The warning of a denied discovery request, deviation r of docs/conformance.md.
        (
            r"^(I warnings\.go:\d+\] \")?Warning: understudy: .*; Audit-Id UID\"?\n",
            "",
        ),
    )
)


class Door(Protocol):
    """A way into the cluster."""

    url: str

    def kubeconfig_for(self, credential: Credential, *, name: str) -> Path:
        """Write a kubeconfig for this door."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a client printed and how it ended, with what changes by itself masked."""

    code: int
    output: str
    errors: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One step of a story: the arguments, and what comes on standard input."""

    arguments: tuple[str, ...]
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class BothDoors:
    """A kubectl at our door and the same one at the native door."""

    with_kubeconfig: Callable[[Path], Kubectl]
    ours: Door
    native: Door

    def say(self, caller: Caller, *arguments: str, stdin: bytes = b"") -> Said:
        """Run one command at both doors, and return what both said."""
        return self.tell(caller, [Command(arguments, stdin)])[0]

    def tell(self, caller: Caller, story: Sequence[Command]) -> list[Said]:
        """Play a story at our door, then again at the native one; return what both said.

        A story must leave the cluster as it found it, for the second telling to find the same.
        """
        ours, native = (
            [_said(door, kubectl, command) for command in story]
            for door, kubectl in self._kubectls(caller)
        )
        for command, mine, reference in zip(story, ours, native, strict=True):
            assert mine == reference, _difference(command.arguments, mine, reference)
        return ours

    @contextmanager
    def watching(
        self, caller: Caller, *arguments: str
    ) -> Iterator[tuple[RunningKubectl, RunningKubectl]]:
        """Run one command at both doors at the same time: ours first, then the native one."""
        with ExitStack() as running:
            ours, native = (
                running.enter_context(kubectl.started(*arguments))
                for _, kubectl in self._kubectls(caller)
            )
            yield ours, native

    def _kubectls(self, caller: Caller) -> list[tuple[Door, Kubectl]]:
        name = fresh_name("kubeconfig")
        return [
            (door, self.with_kubeconfig(door.kubeconfig_for(caller.credential, name=name)))
            for door in (self.ours, self.native)
        ]


def masked(text: str, door: Door) -> str:
    """Return what a client printed without what no two runs share."""
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.replace(door.url, "https://DOOR")


def _difference(arguments: Sequence[str], ours: Said, native: Said) -> str:
    told = unified_diff(_lines(native), _lines(ours), "native", "ours", lineterm="")
    return "\n".join([" ".join(arguments), *told])


def _lines(said: Said) -> list[str]:
    return [f"exit code {said.code}", *said.output.splitlines(), *said.errors.splitlines()]


def _said(door: Door, kubectl: Kubectl, command: Command) -> Said:
    done = kubectl.run(*command.arguments, stdin=command.stdin)
    output, errors = (masked(stream.decode(), door) for stream in (done.stdout, done.stderr))
    return Said(done.returncode, output, errors)
