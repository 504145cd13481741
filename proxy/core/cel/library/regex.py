"""Regular expressions by RE2: linear time, bounded memory.

`re2` keeps the 128 patterns compiled last; its memory per pattern is limited to 8 MiB.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, cast

import re2

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.library.arguments import Implementation, argument_at, int_of, text_of
from proxy.core.cel.values.kinds import Value


class Match(Protocol):
    """One occurrence of a pattern."""

    def group(self) -> str:
        """Return the matched text."""
        ...

    def span(self) -> tuple[int, int]:
        """Return where the match starts and ends."""
        ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> Match | None:
        """Return the first match."""
        ...

    def finditer(self, text: str) -> Iterator[Match]:
        """Return all matches from left to right."""
        ...


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def compile_pattern(pattern: str) -> Pattern:
    """Return a compiled pattern; raises CelEvaluationError."""
    try:
        return cast("Pattern", re2.compile(pattern, _OPTIONS))
    except re2.error as error:
        text = error.args[0]
        detail = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        raise CelEvaluationError(f"error parsing regexp: {detail}") from error


def find_all(pattern: Pattern, text: str, limit: int) -> Value:
    """Return all matches, at most `limit` unless it is negative.

    An empty match directly after the previous match does not count, as in Go.
    """
    found: list[Value] = []
    previous_end = -1
    for match in pattern.finditer(text):
        if 0 <= limit <= len(found):
            break
        start, end = match.span()
        if start != end or start != previous_end:
            found.append(match.group())
        previous_end = end
    return found


def _find(values: Sequence[Value]) -> Value:
    match = compile_pattern(text_of(values[1])).search(text_of(values[0]))
    return "" if match is None else match.group()


def _find_all(values: Sequence[Value]) -> Value:
    limit = int_of(argument_at(values, 2, -1))
    return find_all(compile_pattern(text_of(values[1])), text_of(values[0]), limit)


OVERLOADS: dict[str, Implementation] = {
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
}
