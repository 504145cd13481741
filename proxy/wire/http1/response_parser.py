"""The heads of answers. Nearly all are plain, and those are read at one glance."""

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

# Less than an answer's head may be, and nothing that any two readers could take differently: one
# blank after each colon, none at the end of a line, printable ASCII throughout, a final status.
_PLAIN_HEAD = re.compile(
    rb"HTTP/1\.1 (200|201|40[0-9]|422) [!-~][ -~]*\r"
    rb"(\n(?:[-A-Za-z0-9]+: (?! )[ -~]*(?<! )\r\n)+)\r\n"
)
# Lines that frame a message, belong to one hop, or are replaced by us; in any spelling.
_SPECIAL_LINES = re.compile(
    rb"\n((?:audit-id|connection|content-length|expect|host|http2-settings|keep-alive|"
    rb"proxy-authenticate|proxy-authorization|proxy-connection|te|trailer|transfer-encoding|"
    rb"upgrade):[^\r]*)",
    re.IGNORECASE,
)
_LINES = re.compile(rb"([-A-Za-z0-9]+): ([ -~]*)\r\n")
_LENGTH, _AUDIT_ID = b"Content-Length: ", b"Audit-Id: "
_IN_CHUNKS = b"Transfer-Encoding: chunked"
_BEFORE_ID = b"\n" + _AUDIT_ID
_ID_LINE = _BEFORE_ID + b"%b\r"
_HEAD_END = b"\r\n\r\n"
_LONGEST_REMEMBERED = 2048
# A longer one is read from its beginning, where its lines are counted first.
_LONGEST_PLAIN = 16 * 1024
_MOST_REMEMBERED = 64
_MOST_DIGITS = 15
_MOST_SPECIAL = 2
# The status line, and the empty one at the end.
_LINES_BESIDE_HEADERS = 2
_REASON_AT = len(b"HTTP/1.1 200 ")


class SimpleResponseHead(NamedTuple):
    """The head of an answer with a body, of which every line may pass.

    `lines` begin with the status line and end with the last header's; an audit id is not among
    them, and neither is that the body comes in chunks.
    """

    status: int
    lines: bytes
    length: int | None
    """Of the body; None if it comes in chunks."""
    end: int
    """Where the body begins in what was read."""
    outcome: ExchangeOutcome
    """What becomes of an exchange that passes all of it on, if the length is known."""


class ResponseHeadCache:
    """Reads plain heads, and knows those again that differ in nothing but the id of their request.

    Answers of one API server repeat themselves, for a second: then their date changes.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By all of the head but the id of its request; with where that stood, or -1.
        self._known: dict[bytes, tuple[int, SimpleResponseHead]] = {}

    def read(self, data: bytes, audit_id: bytes) -> SimpleResponseHead | None:
        """Read the head at the beginning of `data`, if it is whole and a plain one.

        `audit_id` is that of the request: printable, and not empty.
        """
        end = data.find(_HEAD_END)
        at = data.find(audit_id, 0, end)
        # The two pieces and where they meet are all of the head but the id, byte for byte.
        rest = data[:end] if at < 0 else data[:at] + data[at + len(audit_id) : end]
        known = self._known.get(rest)
        if known is not None and known[0] == at:
            plain = known[1]
            if plain.end == end + len(_HEAD_END):
                return plain
        return self._read_anew(data, audit_id, at, rest)

    def _read_anew(
        self, data: bytes, audit_id: bytes, at: int, rest: bytes
    ) -> SimpleResponseHead | None:
        plain = parse_simple_head(data)
        # In any other place but its own line an id of another request might read otherwise.
        line_at = at - len(_BEFORE_ID)
        is_alone = at < 0 or (line_at >= 0 and data.startswith(_ID_LINE % audit_id, line_at))
        if plain is not None and is_alone and len(rest) <= _LONGEST_REMEMBERED:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[rest] = (at, plain)
        return plain


def parse_simple_head(data: bytes) -> SimpleResponseHead | None:
    """Read the head at the beginning of `data`, if it is whole and a plain one."""
    plain = _PLAIN_HEAD.match(data, 0, _LONGEST_PLAIN)
    if plain is None:
        return None
    lines = plain[2]
    special: list[bytes] = _SPECIAL_LINES.findall(lines)
    if not special or len(special) > _MOST_SPECIAL:
        return None
    framing, length = special[-1], None
    if framing == _IN_CHUNKS:
        lines = _without(lines, framing)
    else:
        digits = framing.removeprefix(_LENGTH)
        if not digits.isdigit() or len(digits) > _MOST_DIGITS:
            return None
        length = int(digits)
    if len(special) == _MOST_SPECIAL:
        if not special[0].startswith(_AUDIT_ID):
            return None
        lines = _without(lines, special[0])
    status, first_line = int(plain[1]), data[: plain.start(2)]
    outcome = ExchangeOutcome(status, length or 0, is_complete=True)
    return SimpleResponseHead(status, first_line + lines, length, plain.end(), outcome)


def _without(lines: bytes, line: bytes) -> bytes:
    # With the end of the line before it, so that it is found where a line begins.
    return lines.replace(b"\n%b\r" % line, b"", 1)


def read_response_head(head: bytes, *, request_method: bytes) -> ResponseHead:
    """Read one whole response head; the method decides whether a body can follow."""
    # Counted before anything is read: each line costs the most, however short it is.
    if head.count(b"\n") > MAX_HEADERS + _LINES_BESIDE_HEADERS:
        raise MalformedResponse("the head of the answer has too many lines")
    plain = parse_simple_head(head)
    if plain is None or plain.end != len(head) or request_method == b"HEAD":
        return parse_response_head(head, request_method=request_method)
    first_line, _, lines = head.partition(b"\r\n")
    headers: list[Header] = _LINES.findall(lines)
    length = plain.length
    framing = CHUNKED if length is None else BodyFraming(BodyKind.LENGTH, length)
    return ResponseHead(plain.status, first_line[_REASON_AT:], headers, framing, keep_alive=True)
