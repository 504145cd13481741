"""Response heads, with a fast path for plain ones: nearly all are matched by one expression."""

import re

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
_LENGTH_PREFIX, _AUDIT_ID_PREFIX = b"Content-Length: ", b"Audit-Id: "
_CHUNKED_LINE = b"Transfer-Encoding: chunked"
_BEFORE_AUDIT_ID = b"\n" + _AUDIT_ID_PREFIX
_AUDIT_ID_LINE = _BEFORE_AUDIT_ID + b"%b\r"
_MAX_CACHED_HEAD_BYTES = 2048
# A longer head takes the slow path, which counts its lines first.
_MAX_PLAIN_HEAD_BYTES = 16 * 1024
_MAX_CACHED_HEADS = 64
_MAX_LENGTH_DIGITS = 15
_MAX_SPECIAL_LINES = 2
# The status line, and the empty line at the end.
_LINES_BESIDE_HEADERS = 2


class CachingResponseParser:
    """Parses response heads, with a cache of heads that differ only in their request's audit id.

    The heads of one API server repeat for up to a second, until their Date changes.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        # Keyed by the head without its audit id. Values have the offset of that id, or -1.
        self._heads: dict[bytes, tuple[int, ResponseHead]] = {}

    def parse(self, head: bytes, *, method: bytes, audit_id: bytes) -> ResponseHead:
        """Parse one complete response head.

        The request's method determines whether a body can follow. The request's audit id is
        printable, and not empty.
        """
        if method == b"HEAD":
            return read_response_head(head, request_method=method)
        at = head.find(audit_id)
        # The two parts and the offset where they join are the whole head without the id.
        rest = head if at < 0 else head[:at] + head[at + len(audit_id) :]
        cached = self._heads.get(rest)
        if cached is not None and cached[0] == at:
            return cached[1]
        plain = parse_plain_head(head)
        if plain is None:
            return read_response_head(head, request_method=method)
        # Outside its own line, the id of another request might have a different meaning.
        line_at = at - len(_BEFORE_AUDIT_ID)
        is_alone = line_at >= 0 and head.startswith(_AUDIT_ID_LINE % audit_id, line_at)
        if len(rest) <= _MAX_CACHED_HEAD_BYTES and (at < 0 or is_alone):
            if len(self._heads) >= _MAX_CACHED_HEADS:
                self._heads.clear()
            self._heads[rest] = (at, plain)
        return plain


def read_response_head(head: bytes, *, request_method: bytes) -> ResponseHead:
    """Parse one complete response head; the method determines whether a body can follow."""
    # Counted before parsing: the cost is per line, however short a line is.
    if head.count(b"\n") > MAX_HEADERS + _LINES_BESIDE_HEADERS:
        raise MalformedResponse("malformed HTTP response: too many header lines")
    plain = None if request_method == b"HEAD" else parse_plain_head(head)
    return plain or parse_response_head(head, request_method=request_method)


def parse_plain_head(head: bytes) -> ResponseHead | None:
    """Parse one complete head of a response with a body, if it is plain."""
    if len(head) > _MAX_PLAIN_HEAD_BYTES:
        return None
    plain = _PLAIN_HEAD.fullmatch(head)
    if plain is None:
        return None
    lines = plain[2]
    special: list[bytes] = _SPECIAL_LINES.findall(lines)
    if not special or len(special) > _MAX_SPECIAL_LINES:
        return None
    if special[-1] == _CHUNKED_LINE:
        framing = CHUNKED
        lines = _remove_line(lines, special[-1])
    else:
        digits = special[-1].removeprefix(_LENGTH_PREFIX)
        if not digits.isdigit() or len(digits) > _MAX_LENGTH_DIGITS:
            return None
        framing = BodyFraming(BodyKind.LENGTH, int(digits))
    if len(special) == _MAX_SPECIAL_LINES:
        if not special[0].startswith(_AUDIT_ID_PREFIX):
            return None
        lines = _remove_line(lines, special[0])
    first_line = head[: plain.start(2)]
    return ResponseHead(int(plain[1]), first_line + lines, framing, keep_alive=True)


def _remove_line(lines: bytes, line: bytes) -> bytes:
    # Includes the end of the previous line, so it matches only at the beginning of a line.
    return lines.replace(b"\n%b\r" % line, b"", 1)
