"""The heads of answers. Nearly all are plain, and those are read at one glance."""

import re

from proxy.core.header_lines import Header
from proxy.wire.body import BodyFraming, BodyKind
from proxy.wire.head import FRAMING_NAMES, ResponseHead, parse_response_head

# Less than an answer's head may be, and nothing that any two readers could take differently: one
# blank after each colon, none at the end of a line, printable ASCII throughout, a final status.
_PLAIN_HEAD = re.compile(
    rb"HTTP/1\.1 (200|201|40[0-9]|422) ([!-~][ -~]*)\r\n"
    rb"((?:[-A-Za-z0-9]+: (?! )[ -~]*(?<! )\r\n)+)\r\n"
)
_LINES = re.compile(rb"([-A-Za-z0-9]+): ([ -~]*)\r\n")
_LENGTH = b"content-length"
_MOST_DIGITS = 15


def read_response_head(head: bytes, *, request_method: bytes) -> ResponseHead:
    """Read one whole response head; the method decides whether a body can follow."""
    plain = _PLAIN_HEAD.fullmatch(head)
    if plain is not None and request_method != b"HEAD":
        headers = _LINES.findall(plain[3])
        length = _length_alone(headers)
        if length is not None:
            framing = BodyFraming(BodyKind.LENGTH, length)
            return ResponseHead(int(plain[1]), plain[2], headers, framing, keep_alive=True)
    return parse_response_head(head, request_method=request_method)


def _length_alone(headers: list[Header]) -> int | None:
    """Return the length of the body, if one line tells it and none says more about the framing."""
    length = None
    for name, value in headers:
        lowered = name.lower()
        if lowered in FRAMING_NAMES:
            if lowered != _LENGTH or length is not None or not value.isdigit():
                return None
            length = value
    return int(length) if length is not None and len(length) <= _MOST_DIGITS else None
