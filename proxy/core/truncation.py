"""Values that are too long to be recorded: cut, marked, and told with their length and digest.

What counts is the size as written: an escape takes up to six bytes for one byte of a request. A
text is cut between characters, before it is encoded, so no escape is ever broken.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from proxy.core.gocompat.json import go_json
from proxy.core.gocompat.quote import MARKER

_PIECE = 512
_QUOTES = 2


class Cut(NamedTuple):
    """One value that an event holds only in part; the digest identifies the whole."""

    path: str
    """Where the value is in the event, such as `requestURI` or `user.groups`."""
    bytes: int
    sha256: str


class UnreadableCuts(ValueError):
    """An annotation that should tell what was cut does not."""


Cuts = tuple[Cut, ...]
NO_CUTS: Cuts = ()


class BoundedText(NamedTuple):
    """A part of an event as JSON text, and what was cut in it."""

    text: str
    cuts: Cuts = NO_CUTS


def json_size(text: str) -> int:
    """Return how many bytes a text takes in an event, without its quotes."""
    return encoded_size(go_json(text)) - _QUOTES


def encoded_size(text: str) -> int:
    """Return how many bytes a text without surrogates takes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def shortened(text: str, most: int, *, size_of: Callable[[str], int] = json_size) -> str:
    """Return a text whose size, with the marker at its end, is at most `most`."""
    return longest_prefix(text, most - len(MARKER), size_of) + MARKER


def longest_prefix(text: str, most: int, size_of: Callable[[str], int]) -> str:
    """Return the longest beginning of a text with a size of at most `most`.

    Sizes must add up: that of a text is the sum of those of its pieces. The cost is that of one
    encoding of what fits.
    """
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE]
        size = size_of(piece)
        if size > most:
            sizes = range(1, len(piece) + 1)
            kept = bisect_right(sizes, most, key=lambda length: size_of(piece[:length]))
            return text[: start + kept]
        most -= size
    return text


def cut_of(path: str, whole: str) -> Cut:
    """Return what is told of a value that was cut."""
    raw = _comparable(whole)
    return Cut(path, len(raw), sha256(raw).hexdigest())


def is_cut_from(cut: Cut, whole: str) -> bool:
    """Return whether a value that another log holds is the whole of one that was cut."""
    return cut == cut_of(cut.path, whole)


def _comparable(text: str) -> bytes:
    """Return a text in UTF-8, with `?` for what is not text.

    It is a surrogate here and U+FFFD in a log of Go. Both become `?`, by the fastest encoder.
    """
    return text.replace("\ufffd", "?").encode("utf-8", "replace")


def cuts_text(cuts: Iterable[Cut]) -> str:
    """Return cuts as the text of an annotation."""
    return go_json({one.path: {"bytes": one.bytes, "sha256": one.sha256} for one in cuts})


def read_cuts(text: str) -> Mapping[str, Cut]:
    """Return the cuts that an annotation tells, by their paths, or fail with UnreadableCuts."""
    try:
        told: object = json.loads(text)
    except ValueError as error:
        raise UnreadableCuts("not JSON") from error
    if not isinstance(told, dict):
        raise UnreadableCuts("not an object")
    return {path: _read_cut(path, one) for path, one in told.items()}


def _read_cut(path: str, told: object) -> Cut:
    if not isinstance(told, dict):
        raise UnreadableCuts("not an object")
    size, digest = told.get("bytes"), told.get("sha256")
    if not isinstance(size, int) or not isinstance(digest, str):
        raise UnreadableCuts("without a size or a digest")
    return Cut(path, size, digest)
