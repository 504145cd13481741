"""Printing of the demo: each request with its sender, its outcome and the grants behind it."""

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
    """Writes plain lines; `is_coloured` adds only colour."""

    def __init__(self, output: TextIO, *, is_coloured: bool) -> None:
        self._output = output
        self._is_coloured = is_coloured

    def announce(self, line: str) -> None:
        """Print a line of progress."""
        self._write(self._paint(f"  {line}", DIM))

    def print_line(self, line: str = "") -> None:
        """Print a line unchanged."""
        self._write(line)

    def print_chapter(self, chapter: Chapter) -> None:
        """Print the title and the introduction of a chapter."""
        self._write("")
        self._write(self._paint(f"== {chapter.title} ==", BOLD))
        for line in textwrap.wrap(chapter.introduction, WIDTH):
            self._write(line)

    def print_step(
        self, number: int, step: Step, outcome: StepOutcome, reasons: list[Reason]
    ) -> None:
        """Print the request, the outcome and the grants that explain it."""
        self._write("")
        self._write(self._paint(f"{number:>2}. {step.description}", BOLD))
        wanted = f", impersonating {step.impersonation.username}" if step.impersonation else ""
        self._entry("request", f"from {step.sender.username}{wanted}")
        for line in step.request.lines(step.impersonation):
            self._write(
                f"{INDENT}{' ' * LABEL_WIDTH}{line}"
            )  # not wrapped, so that it can be copied
        label, colour = ("ALLOWED", GREEN) if outcome.allowed else ("DENIED", RED)
        for line in summarise(outcome.text):
            self._entry(label, line, colour)
            label = ""
        label = "reason"
        for line in [*map(_explain, reasons), *([step.note] if step.note else [])]:
            self._entry(label, line)
            label = ""

    def _entry(self, label: str, text: str, colour: str = DIM) -> None:
        width = WIDTH - len(INDENT) - LABEL_WIDTH
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
        for line in lines:
            self._write(f"{INDENT}{self._paint(label.ljust(LABEL_WIDTH), colour)}{line}")
            label = ""

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured else text

    def _write(self, line: str) -> None:
        self._output.write(f"{line.rstrip()}\n")
        self._output.flush()


def summarise(text: str) -> list[str]:
    """Return the relevant lines of a response."""
    try:
        response = json.loads(text)
    except ValueError:
        return text.strip().removeprefix("Error from server (Forbidden): ").splitlines()
    return [_summarise_object(response)]


def _summarise_object(response: Any) -> str:
    match response:
        case {"items": list(items)}:
            summary = ", ".join(_summarise_object(item) for item in items)
        case {"metadata": {"name": str(name)}, "spec": {"nodeName": str(node)}}:
            summary = f"pod {name} on {node}"
        case {"remote": {"x-remote-user": [str(user)]}, "echo": str(echo)}:
            summary = f"the console shows the user {user} and echoes: {echo}"
        case {"remote": {"x-remote-user": [str(user)]}}:
            summary = f"the console shows the user {user}"
        case {"status": {"userInfo": {"username": str(user), "groups": list(groups)}}}:
            summary = f"{user}, groups {', '.join(groups)}"
        case {"gitVersion": str(version)}:
            summary = version
        case _:
            summary = json.dumps(response)
    return summary


def _explain(reason: Reason) -> str:
    user, permission = reason.permission.user.title, reason.permission.describe()
    if reason.granted_by is None:
        return f"no grant allows {user} to {permission}"
    # RBAC's reason names the binding, its role and its subject; the binding is sufficient here.
    binding = reason.granted_by.removeprefix("RBAC: allowed by ").partition(" of ")[0]
    return f"{binding or 'a grant'} allows {user} to {permission}"
