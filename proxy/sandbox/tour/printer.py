"""Telling the tour on a terminal or into a file: what was asked, by whom, the outcome and why."""

import json
import textwrap
from typing import Any, TextIO

from proxy.sandbox.tour.runner import (
    Chapter,
    Reason,
    Step,
    StepOutcome,
)

WIDTH = 100
INDENT = " " * 4
LABEL_WIDTH = 10
BOLD, DIM, RED, GREEN = "1", "2", "31", "32"


class TextPrinter:
    """Writes plain lines; `is_coloured` adds colour and nothing else."""

    def __init__(self, output: TextIO, *, is_coloured: bool) -> None:
        self._output = output
        self._is_coloured = is_coloured

    def announce(self, line: str) -> None:
        """Tell about progress."""
        self._write(self._paint(f"  {line}", DIM))

    def say(self, line: str = "") -> None:
        """Write a line as it is."""
        self._write(line)

    def open_chapter(self, chapter: Chapter) -> None:
        """Tell the title and what the chapter is about."""
        self._write("")
        self._write(self._paint(f"== {chapter.title} ==", BOLD))
        for line in textwrap.wrap(chapter.opening, WIDTH):
            self._write(line)

    def print_step(
        self, number: int, step: Step, outcome: StepOutcome, reasons: list[Reason]
    ) -> None:
        """Tell the question, the outcome and the grants that decided it."""
        self._write("")
        self._write(self._paint(f"{number:>2}. {step.story}", BOLD))
        as_whom = f" as {step.impersonation.username}" if step.impersonation else ""
        self._entry("asked", f"by {step.sender.username}{as_whom}")
        for line in step.request.lines(step.impersonation):
            self._write(f"{INDENT}{' ' * LABEL_WIDTH}{line}")  # whole, so that it can be copied
        label, colour = ("ALLOWED", GREEN) if outcome.allowed else ("DENIED", RED)
        for line in summarise(outcome.text):
            self._entry(label, line, colour)
            label = ""
        label = "why"
        for line in [*map(_explain, reasons), *([step.note] if step.note else [])]:
            self._entry(label, line)
            label = ""

    def _entry(self, label: str, text: str, colour: str = DIM) -> None:
        room = WIDTH - len(INDENT) - LABEL_WIDTH
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
        for line in lines:
            self._write(f"{INDENT}{self._paint(label.ljust(LABEL_WIDTH), colour)}{line}")
            label = ""

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured else text

    def _write(self, line: str) -> None:
        self._output.write(f"{line.rstrip()}\n")
        self._output.flush()


def summarise(text: str) -> list[str]:
    """Return the few lines of an answer that a person wants to see."""
    try:
        answer = json.loads(text)
    except ValueError:
        return text.strip().removeprefix("Error from server (Forbidden): ").splitlines()
    return [_summarise_object(answer)]


def _summarise_object(answer: Any) -> str:
    match answer:
        case {"items": list(items)}:
            summary = ", ".join(_summarise_object(item) for item in items)
        case {"metadata": {"name": str(name)}, "spec": {"nodeName": str(node)}}:
            summary = f"pod {name} on {node}"
        case {"remote": {"x-remote-user": [str(user)]}, "echo": str(echo)}:
            summary = f"the console greets {user} and echoes: {echo}"
        case {"remote": {"x-remote-user": [str(user)]}}:
            summary = f"the console sees the user {user}"
        case {"status": {"userInfo": {"username": str(user), "groups": list(groups)}}}:
            summary = f"{user}, groups {', '.join(groups)}"
        case {"gitVersion": str(version)}:
            summary = version
        case _:
            summary = json.dumps(answer)
    return summary


def _explain(reason: Reason) -> str:
    who, what = reason.permission.user.title, reason.permission.describe()
    if reason.granted_by is None:
        return f"nothing lets {who} {what}"
    # RBAC names the binding, its role and its subject; the binding says it all.
    binding = reason.granted_by.removeprefix("RBAC: allowed by ").partition(" of ")[0]
    return f"{who} may {what}" + (f" by {binding}" if binding else "")
