"""Response heads, with a fast path for plain ones: nearly all are matched by one expression."""

import re
from typing import NamedTuple

from proxy.core.http.headers import Header
from proxy.wire.exchange import ExchangeOutcome
from proxy.wire.http1.body import CHUNKED, BodyFraming, BodyKind
from proxy.wire.http1.message import (
    MAX_HEADERS,
    MalformedResponse,
    ResponseHead,
    parse_response_head,
)

# A subset of valid response heads that all parsers interpret in the same way. It has one space
# after each colon, none at the end of a line, printable ASCII only, and a final status.
_PLAIN_HEAD = re.compile(
    rb"HTTP/1\.1 (200|201|40[0-9]|422) [!-~][ -~]*\r"
    rb"(\n(?:[-A-Za-z0-9]+: (?! )[ -~]*(?<! )\r\n)+)\r\n"
)
# Lines that frame a message, are hop-by-hop, or are replaced by the proxy; in any letter case.
_SPECIAL_LINES = re.compile(
    rb"\n((?:audit-id|connection|content-length|expect|host|http2-settings|keep-alive|"
    rb"proxy-authenticate|proxy-authorization|proxy-connection|te|trailer|transfer-encoding|"
    rb"upgrade):[^\r]*)",
    re.IGNORECASE,
)
_HEADER_LINE = re.compile(rb"([-A-Za-z0-9]+): ([ -~]*)\r\n")
_LENGTH_PREFIX, _AUDIT_ID_PREFIX = b"Content-Length: ", b"Audit-Id: "
_CHUNKED_LINE = b"Transfer-Encoding: chunked"
_BEFORE_AUDIT_ID = b"\n" + _AUDIT_ID_PREFIX
_AUDIT_ID_LINE = _BEFORE_AUDIT_ID + b"%b\r"
_HEAD_END = b"\r\n\r\n"
_MAX_CACHED_HEAD_BYTES = 2048
# A longer head takes the slow path, which counts its lines first.
_MAX_PLAIN_HEAD_BYTES = 16 * 1024
_MAX_CACHED_HEADS = 64
_MAX_LENGTH_DIGITS = 15
_MAX_SPECIAL_LINES = 2
# The status line, and the empty line at the end.
_LINES_BESIDE_HEADERS = 2
_REASON_AT = len(b"HTTP/1.1 200 ")


class SimpleResponseHead(NamedTuple):
    """The head of a response with a body, all of whose lines may be forwarded.

    `lines` begin with the status line and end with the last header line. They contain neither an
    audit id nor the transfer coding.
    """

    status: int
    lines: bytes
    length: int | None
    """Length of the body; None if it is chunked."""
    end: int
    """Offset of the body in the data that was parsed."""
    outcome: ExchangeOutcome
    """Outcome of an exchange that forwards the whole response, if the length is known."""


class ResponseHeadCache:
    """Parses plain heads, with a cache of heads that differ only in their request's audit id.

    The heads of one API server repeat for up to a second, until their Date changes.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        # Keyed by the head without its audit id. Values have the offset of that id, or -1.
        self._heads: dict[bytes, tuple[int, SimpleResponseHead]] = {}

    def parse(self, data: bytes, audit_id: bytes) -> SimpleResponseHead | None:
        """Parse the head at the beginning of `data`, if it is complete and plain.

        `audit_id` is the request's: printable, and not empty.
        """
        end = data.find(_HEAD_END)
        at = data.find(audit_id, 0, end)
        # The two parts and the offset where they join are the whole head without the id.
        rest = data[:end] if at < 0 else data[:at] + data[at + len(audit_id) : end]
        known = self._heads.get(rest)
        if known is not None and known[0] == at:
            plain = known[1]
            if plain.end == end + len(_HEAD_END):
                return plain
        return self._parse_and_cache(data, audit_id, at, rest)

    def _parse_and_cache(
        self, data: bytes, audit_id: bytes, at: int, rest: bytes
    ) -> SimpleResponseHead | None:
        plain = parse_simple_head(data)
        # Outside its own line, the id of another request might have a different meaning.
        line_at = at - len(_BEFORE_AUDIT_ID)
        is_alone = at < 0 or (line_at >= 0 and data.startswith(_AUDIT_ID_LINE % audit_id, line_at))
        if plain is not None and is_alone and len(rest) <= _MAX_CACHED_HEAD_BYTES:
            if len(self._heads) >= _MAX_CACHED_HEADS:
                self._heads.clear()
            self._heads[rest] = (at, plain)
        return plain


def parse_simple_head(data: bytes) -> SimpleResponseHead | None:
    """Parse the head at the beginning of `data`, if it is complete and plain."""
    plain = _PLAIN_HEAD.match(data, 0, _MAX_PLAIN_HEAD_BYTES)
    if plain is None:
        return None
    lines = plain[2]
    special: list[bytes] = _SPECIAL_LINES.findall(lines)
    if not special or len(special) > _MAX_SPECIAL_LINES:
        return None
    framing, length = special[-1], None
    if framing == _CHUNKED_LINE:
        lines = _remove_line(lines, framing)
    else:
        digits = framing.removeprefix(_LENGTH_PREFIX)
        if not digits.isdigit() or len(digits) > _MAX_LENGTH_DIGITS:
            return None
        length = int(digits)
    if len(special) == _MAX_SPECIAL_LINES:
        if not special[0].startswith(_AUDIT_ID_PREFIX):
            return None
        lines = _remove_line(lines, special[0])
    status, first_line = int(plain[1]), data[: plain.start(2)]
    outcome = ExchangeOutcome(status, length or 0, is_complete=True)
    return SimpleResponseHead(status, first_line + lines, length, plain.end(), outcome)


def _remove_line(lines: bytes, line: bytes) -> bytes:
    # Includes the end of the previous line, so it matches only at the beginning of a line.
    return lines.replace(b"\n%b\r" % line, b"", 1)


def read_response_head(head: bytes, *, request_method: bytes) -> ResponseHead:
    """Parse one complete response head; the method determines whether a body can follow."""
    # Counted before parsing: the cost is per line, however short a line is.
    if head.count(b"\n") > MAX_HEADERS + _LINES_BESIDE_HEADERS:
        raise MalformedResponse("malformed HTTP response: too many header lines")
    plain = parse_simple_head(head)
    if plain is None or plain.end != len(head) or request_method == b"HEAD":
        return parse_response_head(head, request_method=request_method)
    first_line, _, lines = head.partition(b"\r\n")
    headers: list[Header] = _HEADER_LINE.findall(lines)
    length = plain.length
    framing = CHUNKED if length is None else BodyFraming(BodyKind.LENGTH, length)
    return ResponseHead(plain.status, first_line[_REASON_AT:], headers, framing, keep_alive=True)
