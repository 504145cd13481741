"""Header lines, values derived from them, and extra keys in header names."""

from proxy.core.http.headers import NO_HEADERS, DerivedValue, HeaderList, encode_header_lines

LINES = ((b"Host", b"h"), (b"Accept", b""))


def test_lines_are_the_tuple_of_their_lines() -> None:
    assert HeaderList(list(LINES)) == LINES
    assert NO_HEADERS == ()


def test_derived_values_are_discarded_and_the_lines_are_not() -> None:
    lines = HeaderList(LINES)
    lines.wanted_user, lines.forwarded = DerivedValue("rules", None), DerivedValue("rules", b"")

    lines.clear_derived()

    assert [lines.wanted_user, lines.forwarded] == [None, None]
    assert lines == LINES


def test_derived_values_belong_to_one_list() -> None:
    lines, equal = HeaderList(LINES), HeaderList(LINES)

    lines.forwarded = DerivedValue("rules", b"")

    assert equal.forwarded is None


def test_lines_go_on_the_wire_in_order() -> None:
    assert encode_header_lines(LINES) == b"Host: h\r\nAccept: \r\n"
