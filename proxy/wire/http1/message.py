"""HTTP/1.1 message heads, parsed by llhttp in strict mode, with names and values as received.

Only complete heads are parsed, each by a parser of its own, so no state of one request reaches the
next. Request lines are parsed here, before llhttp and more strictly: a method that Kubernetes uses,
a target, and HTTP/1.1 or 1.0, separated by single spaces. This module also rejects input that
llhttp accepts: transfer codings other than `chunked`, any transfer coding in HTTP/1.0, and a
missing or second Host.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import ClassVar, NamedTuple

import httptools

from proxy.core.errors import BadRequest, StatusError
from proxy.core.forwarding import encode_end_to_end_headers
from proxy.core.http.headers import (
    NO_HEADERS,
    Header,
    HeaderList,
    encode_header_lines,
)
from proxy.core.request_cache import RequestCache
from proxy.wire.http1.body import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    BodyFraming,
    BodyKind,
)

HEAD_END = b"\r\n\r\n"
MAX_HEAD_BYTES = 1024 * 1024 + 4096
MAX_HEADERS = 4096
# Go's clients send one, WebSocket clients one or two.
_MAX_CONNECTION_OPTIONS = 100
_METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"))
SWITCHING_PROTOCOLS = 101
_TUNNELLED_PROTOCOLS = frozenset((b"websocket", b"spdy/3.1"))
_BODILESS_STATUSES = frozenset((204, 304))
_FIRST_STATUS = 100
_FIRST_FINAL_STATUS = 200
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}

# Headers that determine where a message ends, and whether another may follow it.
FRAMING_NAMES = frozenset(
    (
        b"http2-settings",
        b"upgrade",
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"transfer-encoding",
    )
)
_HOST = re.compile(rb"[A-Za-z0-9._~%:\[\]-]+")
_VERSIONS = {b"HTTP/1.1": 1, b"HTTP/1.0": 0}
# The bytes that llhttp accepts. The target parser decides which of them it rejects.
_TARGET_BYTES = bytes(range(0x21, 0x7F))
_TARGET_START = re.compile(rb"/|\*\Z|[A-Za-z]+://[^/?#]")


class MalformedResponse(Exception):
    """The upstream's response is not valid HTTP/1.1; the connection cannot be used any more."""


class HeadTooLarge(StatusError):
    """The head is larger than an API server accepts."""

    code: ClassVar[int] = 431
    reason: ClassVar[str] = "RequestHeaderFieldsTooLarge"

    def __init__(self) -> None:
        super().__init__("the request's header fields are too large")


class ExpectationFailed(StatusError):
    """The client sent an expectation that no API server supports."""

    code: ClassVar[int] = 417
    reason: ClassVar[str] = "ExpectationFailed"

    def __init__(self) -> None:
        super().__init__("the only supported expectation is 100-continue")


class RequestHead(NamedTuple):
    """A request as received: target and header bytes unchanged, values without outer whitespace."""

    method: bytes
    target: bytes
    minor_version: int
    headers: HeaderList
    framing: BodyFraming
    keep_alive: bool
    upgrade: bytes | None = None
    """The protocol to switch to, as the client wrote it, if the proxy can tunnel it."""
    expects_continue: bool = False
    cache: RequestCache | None = None
    """Shared by equal heads of a connection; None if no equal head is expected."""


class ResponseHead(NamedTuple):
    """An upstream's response head; all of its lines may be forwarded."""

    status: int
    lines: bytes
    """The status line and the end-to-end headers, each with its line end.

    They contain a Content-Length, but neither another framing nor the audit id.
    """
    framing: BodyFraming
    keep_alive: bool
    upgrade: bytes | None = None
    """The protocol that a 101 switches to."""
    is_interim: bool = False
    """Whether another head follows for the same request."""


UNPARSED_HEAD = RequestHead(b"", b"", 1, NO_HEADERS, NO_BODY, keep_alive=False)
"""Placeholder for a head that could not be parsed."""


class _Collector:
    """Collects the values that the parser passes to its callbacks."""

    __slots__ = ("headers", "heads", "reason")

    def __init__(self) -> None:
        self.headers: list[Header] = []
        self.reason = b""
        self.heads = 0

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.heads += 1


def find_head_end(buffer: bytes | bytearray, searched: int) -> int:
    """Return the offset after the head, or -1; the first `searched` bytes contain no end."""
    end = buffer.find(HEAD_END, max(0, searched - 3))
    return end + len(HEAD_END) if end >= 0 else -1


def check_header_lines(head: bytes | bytearray, *, most_bytes: int) -> None:
    """Raise HeadTooLarge if a header line, including its line end, exceeds `most_bytes`.

    The request line is not checked. The head may be incomplete.
    """
    start = head.find(b"\n") + 1
    while len(head) - start > most_bytes:
        # A line that begins here must end within `most_bytes`. Lines before that end are shorter.
        end = head.rfind(b"\n", start, start + most_bytes)
        if end < 0:
            raise HeadTooLarge
        start = end + 1


def incomplete_request(buffer: bytes | bytearray) -> RequestHead:
    """Return a request for an incomplete head, for use in an error response.

    Its target may be truncated. It must never be forwarded.
    """
    line = bytes(buffer.partition(b"\n")[0])
    method, _, rest = line.partition(b" ")
    target = rest.partition(b" ")[0]
    if method not in _METHODS or not target.startswith(b"/"):
        return UNPARSED_HEAD
    return UNPARSED_HEAD._replace(method=method, target=target)


def count_header_lines(head: bytes) -> int:
    """Return the number of header lines in a complete head."""
    # `find` is ten times as fast as `count`, and a request line may be nearly all of the head. The
    # end of the request line and the empty line are not header lines.
    return head.count(b"\n", head.find(b"\n")) - 2


def parse_request_head(head: bytes) -> RequestHead:
    """Parse one complete request head; anything ambiguous in it is a 400."""
    # Checked before the parser runs a callback for each line.
    if count_header_lines(head) > MAX_HEADERS:
        raise HeadTooLarge
    # Searching for one byte is ten times as fast as searching for both bytes of the line end.
    line_end = head.find(b"\n") - 1
    method, target, minor_version = _read_request_line(head, line_end)
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        # The target is replaced: llhttp would take 4 ms for the longest one, which is parsed above.
        # The lines are passed without a copy: they may have 1 MB, and new memory is expensive.
        parser.feed_data(b"%b / HTTP/1.%d" % (method, minor_version))
        parser.feed_data(memoryview(head)[line_end:])
    except httptools.HttpParserUpgrade:
        pass  # The head is complete. Whether the proxy treats it as an upgrade is decided below.
    except httptools.HttpParserError as error:
        # llhttp's texts are constants: they describe the error and contain no request data.
        raise BadRequest(f"malformed HTTP request: {error}") from error
    if collector.heads != 1:
        raise BadRequest("malformed HTTP request: malformed header lines")
    values = _framing_values(collector.headers)
    if _has_too_many_options(values):
        raise BadRequest("malformed HTTP request: too many Connection options")
    _check_host(values.get(b"host", ()))
    framing = _request_framing(values, minor_version=minor_version)
    return RequestHead(
        method=method,
        target=target,
        minor_version=minor_version,
        headers=HeaderList(collector.headers),
        framing=framing,
        keep_alive=_keeps_alive(values, minor_version=minor_version),
        upgrade=_upgrade(values, framing, minor_version=minor_version),
        expects_continue=_expects_continue(values, framing, minor_version=minor_version),
    )


def parse_response_head(head: bytes, *, request_method: bytes) -> ResponseHead:
    """Parse one complete response head; the method determines whether a body can follow."""
    if count_header_lines(head) > MAX_HEADERS:
        raise MalformedResponse("malformed HTTP response: too many header fields")
    collector = _Collector()
    parser = httptools.HttpResponseParser(collector)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # llhttp stops at a 101. The relay checks whether an upgrade was requested.
    except httptools.HttpParserError as error:
        raise MalformedResponse(f"malformed HTTP response: {error}") from error
    status = parser.get_status_code()
    if collector.heads != 1 or not head.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")):
        raise MalformedResponse("malformed HTTP response: not HTTP/1.1 or HTTP/1.0")
    if status < _FIRST_STATUS:
        raise MalformedResponse("malformed HTTP response: no such status")
    minor_version = int(parser.get_http_version()[2])
    values = _framing_values(collector.headers)
    if _has_too_many_options(values):
        raise MalformedResponse("malformed HTTP response: too many Connection options")
    framing = _response_framing(values, status=status, method=request_method)
    if minor_version == 0 and b"transfer-encoding" in values:
        raise MalformedResponse("malformed HTTP response: a transfer coding in HTTP/1.0")
    # The client's 101 is the proxy's own, whatever reason the upstream gave.
    reason = b"" if status == SWITCHING_PROTOCOLS else collector.reason
    lines = status_line(status, reason) + encode_end_to_end_headers(collector.headers)
    return ResponseHead(
        status=status,
        lines=lines,
        framing=framing,
        keep_alive=framing is not UNTIL_CLOSE and _keeps_alive(values, minor_version=minor_version),
        upgrade=_switched_protocol(values) if status == SWITCHING_PROTOCOLS else None,
        is_interim=status < _FIRST_FINAL_STATUS and status != SWITCHING_PROTOCOLS,
    )


def _switched_protocol(values: dict[bytes, list[bytes]]) -> bytes | None:
    protocols = values.get(b"upgrade", ())
    return protocols[0] if len(protocols) == 1 else None


def status_line(status: int, reason: bytes = b"") -> bytes:
    """Return the first line of a response, with the standard reason if there is no other."""
    return b"HTTP/1.1 %d %b\r\n" % (status, reason or _REASONS.get(status, b""))


def encode_head(first_line: bytes, headers: Sequence[Header]) -> bytes:
    """Return a head in its wire format."""
    return b"%b\r\n%b\r\n" % (first_line, encode_header_lines(headers))


def _read_request_line(head: bytes, end: int) -> tuple[bytes, bytes, int]:
    """Return method, target and minor version; the line ends at `end`.

    Only one spelling of the line is accepted, so no later parser can find another request in it.
    """
    # A target may have 1 MB, so it is copied only once.
    first, last = head.find(b" ", 0, end), head.rfind(b" ", 0, end)
    method, target = head[: max(first, 0)], head[first + 1 : last]
    minor_version = _VERSIONS.get(head[last + 1 : end])
    if head[end : end + 1] != b"\r":
        raise BadRequest("malformed HTTP request: malformed request line")
    if method not in _METHODS or minor_version is None:
        raise BadRequest("malformed HTTP request: unknown method or version")
    if _TARGET_START.match(target) is None or target.translate(None, _TARGET_BYTES):
        raise BadRequest("malformed HTTP request: malformed request line")
    return method, target, minor_version


def _framing_values(headers: Sequence[Header]) -> dict[bytes, list[bytes]]:
    """Return the values of the headers that frame a message, by lower-case name."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        lowered = name.lower()
        if lowered in FRAMING_NAMES:
            values.setdefault(lowered, []).append(value)
    return values


def _check_host(hosts: Sequence[bytes]) -> None:
    # Also required of an HTTP/1.0 request, because it is forwarded as HTTP/1.1.
    if len(hosts) != 1 or _HOST.fullmatch(hosts[0]) is None:
        raise BadRequest("malformed HTTP request: missing, repeated or malformed Host")


def _keeps_alive(values: dict[bytes, list[bytes]], *, minor_version: int) -> bool:
    """Return whether the connection persists; any `close` closes it.

    HTTP/1.0 keep-alive is not supported: it is not worth its rules.
    """
    return minor_version == 1 and b"close" not in _connection_tokens(values)


def _connection_tokens(values: dict[bytes, list[bytes]]) -> list[bytes]:
    named = values.get(b"connection")
    if named is None:
        return []
    return [token.strip() for token in b",".join(named).lower().split(b",")]


def _has_too_many_options(values: dict[bytes, list[bytes]]) -> bool:
    named = values.get(b"connection", ())
    return len(named) + sum(line.count(b",") for line in named) > _MAX_CONNECTION_OPTIONS


def _upgrade(
    values: dict[bytes, list[bytes]], framing: BodyFraming, *, minor_version: int
) -> bytes | None:
    """Return the protocol to switch to; None for a plain request.

    An incomplete upgrade (one header without the other, or an unknown protocol) is ignored: the
    request is forwarded as plain HTTP. An upgrade that would start HTTP/2 unnoticed is rejected.
    """
    protocols = values.get(b"upgrade", ())
    if b"http2-settings" in values or any(b"h2c" in name.lower() for name in protocols):
        raise BadRequest("an upgrade to HTTP/2 is not supported")
    if len(protocols) != 1 or b"upgrade" not in _connection_tokens(values):
        return None
    if protocols[0].lower() not in _TUNNELLED_PROTOCOLS or minor_version == 0:
        return None
    if framing.has_body:
        raise BadRequest("an upgrade with a body is not supported")
    return protocols[0]


def _expects_continue(
    values: dict[bytes, list[bytes]], framing: BodyFraming, *, minor_version: int
) -> bool:
    expectations = values.get(b"expect", ())
    if any(expectation.lower() != b"100-continue" for expectation in expectations):
        raise ExpectationFailed
    # An HTTP/1.0 client cannot read a 100, and without a body there is nothing to wait for.
    return bool(expectations) and minor_version == 1 and framing.has_body


def _request_framing(values: dict[bytes, list[bytes]], *, minor_version: int) -> BodyFraming:
    codings = values.get(b"transfer-encoding")
    if codings is not None:
        if len(codings) != 1 or codings[0].lower() != b"chunked" or minor_version == 0:
            raise BadRequest(
                "malformed HTTP request: the only supported transfer coding is HTTP/1.1's chunked"
            )
        return CHUNKED
    lengths = values.get(b"content-length")
    # llhttp rejects a second one, a sign, a list, an overflow, and one next to a transfer coding.
    return NO_BODY if lengths is None else BodyFraming(BodyKind.LENGTH, _length(lengths[0]))


def _length(digits: bytes) -> int:
    # llhttp bounds the value but not its leading zeros, and Python limits the digits it parses.
    return int(digits.lstrip(b"0") or b"0")


def _response_framing(
    values: dict[bytes, list[bytes]], *, status: int, method: bytes
) -> BodyFraming:
    if status == SWITCHING_PROTOCOLS:
        return UNTIL_CLOSE
    if method == b"HEAD" or status < _FIRST_FINAL_STATUS or status in _BODILESS_STATUSES:
        return NO_BODY
    codings = values.get(b"transfer-encoding")
    if codings is not None:
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            raise MalformedResponse("malformed HTTP response: unknown transfer coding")
        return CHUNKED
    lengths = values.get(b"content-length")
    return UNTIL_CLOSE if lengths is None else BodyFraming(BodyKind.LENGTH, _length(lengths[0]))
