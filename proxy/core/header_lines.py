"""The header lines of one message, and what was found out about them.

A client sends the same lines again and again. Whoever asks a pure question about lines asks it
once for all requests that share them: `lines.derive(bearer_token)`. What is found lives and ends
with the lines, which belong to one connection: a token never outlives the client that showed it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, cast

Header = tuple[bytes, bytes]
_MOST_QUESTIONS = 32
T = TypeVar("T")


class HeaderLines(tuple[Header, ...]):  # noqa: SLOT001 - a tuple cannot have slots of its own
    """Header lines in the order they came, as a tuple of names and values."""

    _found: dict[object, object]

    def __init__(self, _lines: Iterable[Header] = ()) -> None:
        self._found = {}

    def derive(self, question: "Callable[[HeaderLines], T]") -> T:
        """Return what a question answers about these lines.

        The question must be pure: equal lines, equal answer, for as long as the question exists.
        One that raises is asked anew each time.
        """
        found = self._found
        if question in found:
            return cast("T", found[question])
        if len(found) >= _MOST_QUESTIONS:
            found.clear()  # of rooms that a reload has replaced long ago
        answer = found[question] = question(self)
        return answer

    def forget(self) -> None:
        """Let go of what was found; whoever asks again is answered anew."""
        self._found.clear()


NO_LINES = HeaderLines()


def header_lines(head: bytes) -> list[Header]:
    """Return the lines of a head that was made by us or found plain; the first is no header."""
    lines = []
    for line in head.split(b"\r\n")[1:-1]:
        name, _, value = line.partition(b": ")
        lines.append((name, value))
    return lines


def encoded_lines(lines: Sequence[Header]) -> bytes:
    """Return header lines as they go on the wire."""
    return b"".join([b"%b: %b\r\n" % line for line in lines])
