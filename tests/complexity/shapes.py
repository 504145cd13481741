"""Hostile texts of a given length: separators, escapes, digits and odd bytes."""

from collections.abc import Callable

Shape = Callable[[int], bytes]


def repeated(unit: bytes, *, before: bytes = b"", after: bytes = b"") -> Shape:
    """Return a shape that repeats a unit between two ends."""
    return lambda size: (
        before + unit * max(1, (size - len(before) - len(after)) // len(unit)) + after
    )


def _halves(first: bytes, second: bytes) -> Shape:
    return lambda size: first * (size // 2 // len(first)) + second * (size // 2 // len(second))


PRINTABLE: dict[str, Shape] = {
    "letters": repeated(b"a"),
    "zeros then x": repeated(b"0", after=b"x"),
    "ones then x": repeated(b"1", after=b"x"),
    "digits": repeated(b"1234567890"),
    "commas": repeated(b","),
    "letters and commas": repeated(b"a,"),
    "semicolons": repeated(b";"),
    "dots": repeated(b"a."),
    "hyphens": repeated(b"a-", after=b"!"),
    "equals": repeated(b"="),
    "pairs": repeated(b"a=b,"),
    "not equals": repeated(b"a!=b,"),
    "sets": repeated(b"b,", before=b"a%20in%20(", after=b"c)"),
    "sets of one": repeated(b"a%20in%20(b),"),
    "open parentheses": repeated(b"("),
    "exclamation marks": repeated(b"!"),
    "durations": repeated(b"1ns"),
    "fractions": repeated(b"1.1ns"),
    "slashes": repeated(b"/"),
    "segments": repeated(b"/a"),
    "escaped letters": repeated(b"%61"),
    "escaped commas": repeated(b"a%2c"),
    "escaped controls": repeated(b"%01"),
    "escaped high bytes": repeated(b"%ff"),
    "escaped escapes": repeated(b"%25"),
    "escaped blanks": repeated(b"%20"),
    "escaped backslashes": repeated(b"%5c%2c"),
    "backslashes": repeated(b"\\"),
    "escaped commas of fields": repeated(b"a=\\,,"),
    "bad escapes": repeated(b"%"),
    "half escapes": repeated(b"%zz"),
    "late bad escape": repeated(b"a", after=b"%"),
    "quotes": repeated(b'"'),
    "markup": repeated(b"<"),
    "plus": repeated(b"+"),
    "tildes": repeated(b"~"),
}
WITH_BLANKS: dict[str, Shape] = {
    "blanks": repeated(b" ", before=b"a", after=b"a"),
    "tabs": repeated(b"\t", before=b"a", after=b"a"),
    "words": repeated(b"a "),
    "blanks and commas": repeated(b" ,"),
    "media types": _halves(b"*/*,", b"a/b,"),
    "served media types": repeated(b"application/json;q=0.5,"),
    "media parameters": repeated(b";a=b", before=b"a/b"),
    "quality of ones": repeated(b"1", before=b"a/b;q=", after=b"x"),
    "quality of digits": repeated(b"1", before=b"a/b;q=0."),
    "connection options": repeated(b"close,"),
    "forwarded addresses": repeated(b"1.1.1.1, "),
}
NOT_ASCII: dict[str, Shape] = {
    "high bytes": repeated(b"\xff"),
    "accents": repeated(b"\xc3\xa9"),
    "letters and high bytes": repeated(b"a\xff"),
    "emoji": repeated(b"\xf0\x9f\x98\x80"),
    "line separators": repeated(b"\xe2\x80\xa8"),
}
IN_TARGETS = {**PRINTABLE, **NOT_ASCII}
IN_VALUES = {**PRINTABLE, **WITH_BLANKS, **NOT_ASCII}
