"""Header lines are a tuple that remembers what was found out about it."""

import pytest

from proxy.core.errors import BadRequest
from proxy.core.http.headers import NO_HEADERS, HeaderList, encode_header_lines

LINES = ((b"Host", b"h"), (b"Accept", b""))


def test_lines_are_the_tuple_of_their_lines() -> None:
    assert HeaderList(list(LINES)) == LINES
    assert NO_HEADERS == ()


def test_a_question_is_asked_once_for_the_same_lines() -> None:
    asked: list[HeaderList] = []

    def count(lines: HeaderList) -> int | None:
        asked.append(lines)
        return None

    lines = HeaderList(LINES)
    assert [lines.memoize(count), lines.memoize(count)] == [None, None]
    assert asked == [LINES]
    HeaderList(LINES).memoize(count)
    assert asked == [LINES, LINES]


def test_each_question_has_its_own_answer() -> None:
    lines = HeaderList(LINES)

    assert lines.memoize(len) == 2
    assert lines.memoize(lambda lines: lines[0]) == (b"Host", b"h")


def test_a_refusal_is_no_answer() -> None:
    asked: list[int] = []

    def refuse(lines: HeaderList) -> None:
        asked.append(1)
        raise BadRequest("no")

    lines = HeaderList(LINES)
    for _ in range(2):
        with pytest.raises(BadRequest):
            lines.memoize(refuse)
    assert asked == [1, 1]


def test_lines_go_on_the_wire_in_order() -> None:
    assert encode_header_lines(LINES) == b"Host: h\r\nAccept: \r\n"


def test_what_was_forgotten_is_found_anew() -> None:
    asked: list[HeaderList] = []
    lines = HeaderList(LINES)

    for _ in range(2):
        lines.memoize(asked.append)
        lines.clear_memo()

    assert asked == [LINES, LINES]
    assert lines == LINES
