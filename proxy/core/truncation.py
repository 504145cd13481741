"""Truncation of values that are too long for an audit event.

A truncated value ends in a marker, and its full length and digest are recorded. The limit applies
to the encoded size: an escape takes up to six bytes for one byte of a request. A text is cut
between characters, before it is encoded, so no escape is ever broken.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from proxy.core.gocompat.json import go_json
from proxy.core.gocompat.quote import TRUNCATION_MARKER

_PIECE_LENGTH = 512
_QUOTE_BYTES = 2


class TruncatedValue(NamedTuple):
    """A value that an event contains only in part; the digest identifies the full value."""

    path: str
    """The path of the value in the event, such as `requestURI` or `user.groups`."""
    bytes: int
    sha256: str


class InvalidTruncatedValues(ValueError):
    """The annotation that lists the truncated values is malformed."""


TruncatedValues = tuple[TruncatedValue, ...]
NO_TRUNCATED_VALUES: TruncatedValues = ()


class BoundedText(NamedTuple):
    """A part of an event as JSON text, and the values that were truncated in it."""

    text: str
    truncated_values: TruncatedValues = NO_TRUNCATED_VALUES


def json_size(text: str) -> int:
    """Return the number of bytes that a text takes in an event, without its quotes."""
    return encoded_size(go_json(text)) - _QUOTE_BYTES


def encoded_size(text: str) -> int:
    """Return the number of bytes that a text without surrogates takes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def truncate_to_size(text: str, max_size: int, *, size_of: Callable[[str], int] = json_size) -> str:
    """Truncate a text so that its size, with the marker at its end, is at most `max_size`."""
    return longest_prefix(text, max_size - len(TRUNCATION_MARKER), size_of) + TRUNCATION_MARKER


def longest_prefix(text: str, max_size: int, size_of: Callable[[str], int]) -> str:
    """Return the longest prefix of a text with a size of at most `max_size`.

    Sizes must be additive: the size of a text is the sum of the sizes of its pieces. The cost is
    that of encoding the returned prefix once.
    """
    for start in range(0, len(text), _PIECE_LENGTH):
        piece = text[start : start + _PIECE_LENGTH]
        size = size_of(piece)
        if size > max_size:
            sizes = range(1, len(piece) + 1)
            kept = bisect_right(sizes, max_size, key=lambda length: size_of(piece[:length]))
            return text[: start + kept]
        max_size -= size
    return text


def truncated_value(path: str, whole: str) -> TruncatedValue:
    """Return the record of a value that was truncated: its path, length and digest."""
    raw = _comparable_bytes(whole)
    return TruncatedValue(path, len(raw), sha256(raw).hexdigest())


def is_truncated_from(cut: TruncatedValue, whole: str) -> bool:
    """Return whether a value from another log is the full value of a truncated one."""
    return cut == truncated_value(cut.path, whole)


def _comparable_bytes(text: str) -> bytes:
    """Return a text in UTF-8, with `?` for bytes that were not valid UTF-8.

    Such a byte is a surrogate here and U+FFFD in a log written by Go. Both become `?`, by the
    fastest encoder.
    """
    return text.replace("\ufffd", "?").encode("utf-8", "replace")


def format_truncated_values(cuts: Iterable[TruncatedValue]) -> str:
    """Return truncated values as the text of an annotation."""
    return go_json({cut.path: {"bytes": cut.bytes, "sha256": cut.sha256} for cut in cuts})


def parse_truncated_values(text: str) -> Mapping[str, TruncatedValue]:
    """Parse an annotation into truncated values by path, or raise InvalidTruncatedValues."""
    try:
        document: object = json.loads(text)
    except ValueError as error:
        raise InvalidTruncatedValues("not JSON") from error
    if not isinstance(document, dict):
        raise InvalidTruncatedValues("not an object")
    return {path: _parse_cut(path, value) for path, value in document.items()}


def _parse_cut(path: str, value: object) -> TruncatedValue:
    if not isinstance(value, dict):
        raise InvalidTruncatedValues("not an object")
    size, digest = value.get("bytes"), value.get("sha256")
    if not isinstance(size, int) or not isinstance(digest, str):
        raise InvalidTruncatedValues("missing size or digest")
    return TruncatedValue(path, size, digest)
