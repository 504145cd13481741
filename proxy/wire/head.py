"""Message heads, read by llhttp in its strict mode and kept as the bytes that came.

Only whole heads are parsed, each by a parser of its own: nothing of one request can colour the
next. What llhttp lets through and we do not: other methods than Kubernetes uses, other protocols
than HTTP/1.1 and 1.0, request lines with more than one blank, blank lines before a head, transfer
codings other than `chunked`, any transfer coding in HTTP/1.0, a missing or second Host.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import httptools

from proxy.core.errors import BadRequest, Refusal
from proxy.core.header_lines import NO_LINES, Header, HeaderLines, encoded_lines
from proxy.wire.body import CHUNKED, NO_BODY, UNTIL_CLOSE, BodyFraming, BodyKind

HEAD_END = b"\r\n\r\n"
MAX_HEAD_BYTES = 1024 * 1024 + 4096
MAX_HEADERS = 4096
_METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"))
SWITCHING_PROTOCOLS = 101
_TUNNELLED_PROTOCOLS = frozenset((b"websocket", b"spdy/3.1"))
_BODILESS_STATUSES = frozenset((204, 304))
_FIRST_STATUS = 100
_FIRST_FINAL_STATUS = 200

# What says where a message ends, and whether another may follow it.
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


class MalformedResponse(Exception):
    """The upstream does not speak HTTP/1.1; the connection is of no more use."""


class HeadTooLarge(Refusal):
    """The head is larger than an API server takes."""

    code: ClassVar[int] = 431
    reason: ClassVar[str] = "RequestHeaderFieldsTooLarge"

    def __init__(self) -> None:
        super().__init__("the request's header fields are too large")


class UnknownExpectation(Refusal):
    """The client expects something no API server offers."""

    code: ClassVar[int] = 417
    reason: ClassVar[str] = "ExpectationFailed"

    def __init__(self) -> None:
        super().__init__("the only expectation met here is 100-continue")


class RequestHead(NamedTuple):
    """A request as it came: target and header bytes untouched, outer blanks of values removed."""

    method: bytes
    target: bytes
    minor_version: int
    headers: HeaderLines
    framing: BodyFraming
    keep_alive: bool
    upgrade: bytes | None = None
    """The protocol to switch to, as the client wrote it, if it is one that we carry."""
    expects_continue: bool = False
    notes: dict[object, object] | None = None
    """What rooms have found out about this head, each under its own key; one for equal heads of a
    connection, and None where none are expected. Only for what is true of every equal head."""


class ResponseHead(NamedTuple):
    """An upstream's answer as it came."""

    status: int
    reason: bytes
    headers: Sequence[Header]
    framing: BodyFraming
    keep_alive: bool

    @property
    def is_interim(self) -> bool:
        """Tell whether another head follows for the same request."""
        return self.status < _FIRST_FINAL_STATUS and self.status != SWITCHING_PROTOCOLS

    @property
    def upgrade(self) -> bytes | None:
        """The protocol that a 101 switches to."""
        named = [value for name, value in self.headers if name.lower() == b"upgrade"]
        return named[0] if self.status == SWITCHING_PROTOCOLS and len(named) == 1 else None


UNREAD_HEAD = RequestHead(b"", b"", 1, NO_LINES, NO_BODY, keep_alive=False)
"""Stands for a head that could not be read."""


class _Collector:
    """Takes what the parser calls back."""

    __slots__ = ("headers", "heads", "reason", "target")

    def __init__(self) -> None:
        self.headers: list[Header] = []
        self.target = b""
        self.reason = b""
        self.heads = 0

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.heads += 1


def find_head_end(buffer: bytes | bytearray, searched: int) -> int:
    """Return the offset just past the head in `buffer`, or -1; `searched` bytes hold no end."""
    end = buffer.find(HEAD_END, max(0, searched - 3))
    return end + len(HEAD_END) if end >= 0 else -1


def parse_request_head(head: bytes) -> RequestHead:
    """Read one whole request head; anything doubtful in it is a 400."""
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # Whether that is an upgrade to us is read from the headers; the head is complete.
    except httptools.HttpParserError as error:
        # llhttp's texts are constant: they describe the fault and repeat nothing of the request.
        raise BadRequest(f"malformed HTTP request: {error}") from error
    method, target, version = parser.get_method(), collector.target, parser.get_http_version()
    if method not in _METHODS or version not in ("1.1", "1.0"):
        raise BadRequest("malformed HTTP request: unknown method or version")
    # The request line is spelled in one way only, so that nobody can read another one into it.
    line = b"%b %b HTTP/%b\r\n" % (method, target, version.encode())
    if collector.heads != 1 or not head.startswith(line):
        raise BadRequest("malformed HTTP request: malformed request line")
    if len(collector.headers) > MAX_HEADERS:
        raise HeadTooLarge
    minor_version = int(version[2])
    values = _framing_values(collector.headers)
    _check_host(values.get(b"host", ()))
    framing = _request_framing(values, minor_version=minor_version)
    return RequestHead(
        method=method,
        target=target,
        minor_version=minor_version,
        headers=HeaderLines(collector.headers),
        framing=framing,
        keep_alive=_keeps_alive(values, minor_version=minor_version),
        upgrade=_upgrade(values, framing, minor_version=minor_version),
        expects_continue=_expects_continue(values, framing, minor_version=minor_version),
    )


def parse_response_head(head: bytes, *, request_method: bytes) -> ResponseHead:
    """Read one whole response head; the method decides whether a body can follow."""
    collector = _Collector()
    parser = httptools.HttpResponseParser(collector)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # A 101 ends the parser's interest; whether we asked for it is checked by the relay.
    except httptools.HttpParserError as error:
        raise MalformedResponse(f"malformed HTTP response: {error}") from error
    status = parser.get_status_code()
    if collector.heads != 1 or not head.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")):
        raise MalformedResponse("malformed HTTP response: not HTTP/1.1 or HTTP/1.0")
    if status < _FIRST_STATUS:
        raise MalformedResponse("malformed HTTP response: no such status")
    minor_version = int(parser.get_http_version()[2])
    values = _framing_values(collector.headers)
    framing = _response_framing(values, status=status, method=request_method)
    if minor_version == 0 and b"transfer-encoding" in values:
        raise MalformedResponse("malformed HTTP response: a transfer coding in HTTP/1.0")
    return ResponseHead(
        status=status,
        reason=collector.reason,
        headers=tuple(collector.headers),
        framing=framing,
        keep_alive=framing is not UNTIL_CLOSE and _keeps_alive(values, minor_version=minor_version),
    )


def encode_head(first_line: bytes, headers: Sequence[Header]) -> bytes:
    """Return a head as it goes on the wire."""
    return b"%b\r\n%b\r\n" % (first_line, encoded_lines(headers))


def _framing_values(headers: Sequence[Header]) -> dict[bytes, list[bytes]]:
    """Return the values of the few headers that frame a message, by lower-case name."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        lowered = name.lower()
        if lowered in FRAMING_NAMES:
            values.setdefault(lowered, []).append(value)
    return values


def _check_host(hosts: Sequence[bytes]) -> None:
    # Also of an HTTP/1.0 request, because it goes on as HTTP/1.1.
    if len(hosts) != 1 or _HOST.fullmatch(hosts[0]) is None:
        raise BadRequest("malformed HTTP request: missing, repeated or malformed Host")


def _keeps_alive(values: dict[bytes, list[bytes]], *, minor_version: int) -> bool:
    """A `close` anywhere closes. HTTP/1.0's own keep-alive is not worth its rules."""
    return minor_version == 1 and b"close" not in _connection_tokens(values)


def _connection_tokens(values: dict[bytes, list[bytes]]) -> list[bytes]:
    named = values.get(b"connection")
    if named is None:
        return []
    return [token.strip() for token in b",".join(named).lower().split(b",")]


def _upgrade(
    values: dict[bytes, list[bytes]], framing: BodyFraming, *, minor_version: int
) -> bytes | None:
    """Return the protocol to switch to; None for a plain request.

    Half a wish (one header without the other, or an unknown protocol) is no wish: the request
    goes on as plain HTTP. One that would start HTTP/2 behind our back is refused.
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
        raise UnknownExpectation
    # An HTTP/1.0 client cannot read a 100, and without a body there is nothing to wait for.
    return bool(expectations) and minor_version == 1 and framing.has_body


def _request_framing(values: dict[bytes, list[bytes]], *, minor_version: int) -> BodyFraming:
    codings = values.get(b"transfer-encoding")
    if codings is not None:
        if len(codings) != 1 or codings[0].lower() != b"chunked" or minor_version == 0:
            raise BadRequest("malformed HTTP request: only HTTP/1.1's chunked is spoken here")
        return CHUNKED
    lengths = values.get(b"content-length")
    # llhttp has refused a second one, a sign, a list, an overflow, and one beside a coding.
    return NO_BODY if lengths is None else BodyFraming(BodyKind.LENGTH, _length(lengths[0]))


def _length(digits: bytes) -> int:
    # llhttp bounds the value, not how it is spelled, and Python reads only so many digits.
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
