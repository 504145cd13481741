"""Whole requests: every header, parameter, path and body that the code reads, in hostile shapes.

Unauthenticated ones show no credential and are answered 401 or 400. Authenticated ones come with a
client certificate; those that impersonate ask for another user each time, so that no decision is
known before.
"""

from collections.abc import Callable, Iterator, Mapping

from tests.complexity.measuring import Case
from tests.complexity.served_proxy import NUMBER, Client
from tests.complexity.shapes import IN_TARGETS, IN_VALUES, NOT_ASCII, PRINTABLE, Shape, repeated

HEADERS = (
    "Accept",
    "Audit-ID",
    "Authorization",
    "Connection",
    "Content-Length",
    "Content-Type",
    "Cookie",
    "Expect",
    "Forwarded",
    "Host",
    "HTTP2-Settings",
    "Impersonate-Extra-a.io%2fb",
    "Impersonate-Group",
    "Impersonate-Uid",
    "Impersonate-User",
    "Impersonate-Unknown",
    "Keep-Alive",
    "Proxy-Connection",
    "Sec-WebSocket-Protocol",
    "TE",
    "Traceparent",
    "Tracestate",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "User-Agent",
    "X-Forwarded-For",
    "X-Real-Ip",
    "X-Remote-Extra-a",
    "X-Remote-Group",
    "X-Remote-User",
    "X-Unknown",
)
PARAMETERS = (
    "labelSelector",
    "fieldSelector",
    "watch",
    "limit",
    "timeoutSeconds",
    "timeout",
    "pretty",
    "follow",
    "command",
    "unknown",
)
_TOKEN = b"base64url.bearer.authorization.k8s.io."
_HEAD = b"%b HTTP/1.1\r\nHost: a\r\nX-Run: " + NUMBER + b"\r\n%b\r\n"
_IMPERSONATE = b"Impersonate-User: u" + NUMBER + b"\r\n"
_WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
_LISTED, _LOGGED = b"/api/v1/pods", b"/api/v1/namespaces/n/pods/p/log"
_EXECUTED = b"/api/v1/namespaces/n/pods/p/exec"

_SMALL_RUNS = 20

Builder = Callable[[int], bytes]
"""Return a request of about so many bytes."""


def path_cases(client: Client, kind: str) -> Iterator[Case]:
    """Yield the cases of one kind: `unauthenticated`, `authenticated` or `impersonating`."""
    extra = _IMPERSONATE if kind == "impersonating" else b""
    has_caller = kind != "unauthenticated"
    # The reviews of an impersonation cost as much for a short request; only what bytes add counts.
    small = _head(b"GET " + _LISTED, _IMPERSONATE)
    reviews = min(client.cost(small) for _ in range(_SMALL_RUNS)) if has_caller else 0
    for name, build in _requests(extra, has_caller=has_caller):
        spared = reviews if extra or name.startswith("header Impersonate-") else 0
        yield Case(f"{kind}: {name}", _prepare(client, build, spared))


def _prepare(client: Client, build: Builder, spared: int) -> Callable[[int], Callable[[], int]]:
    def prepare(size: int) -> Callable[[], int]:
        request = build(size)
        return lambda: max(0, client.cost(request) - spared)

    return prepare


def _requests(extra: bytes, *, has_caller: bool) -> Iterator[tuple[str, Builder]]:
    yield from _targets(extra)
    if not extra:
        yield from _header_values()
    yield from _header_lines(extra)
    yield from _web_sockets(extra)
    if has_caller and not extra:
        yield from _bodies()


def _head(first_line: bytes, lines: bytes = b"") -> bytes:
    return _HEAD % (first_line, lines)


def _targets(extra: bytes) -> Iterator[tuple[str, Builder]]:
    for shape_name, shape in IN_TARGETS.items():
        for prefix in (
            b"/",
            b"/api/v1/namespaces/",
            b"/api/v1/namespaces/n/pods/",
            b"/api/v1/proxy/",
        ):
            name = f"path {prefix.decode()} {shape_name}"
            yield name, _in_target(prefix, shape, extra)
        for parameter in PARAMETERS:
            path = {"follow": _LOGGED, "command": _EXECUTED}.get(parameter, _LISTED)
            before = b"%b?%b=" % (path, parameter.encode())
            yield f"parameter {parameter} {shape_name}", _in_target(before, shape, extra)
    for name, unit in _pairs().items():
        yield f"parameters {name}", _in_target(_LISTED + b"?", repeated(unit), extra)
    yield "path unreadable", _in_target(b"/api/v1/watch?", repeated(b"<"), extra)
    yield "path unreadable escapes", _in_target(b"/api/v1/watch?", repeated(b"\xff"), extra)


def _pairs() -> Mapping[str, bytes]:
    return {
        "of one letter": b"a=1&ab&",
        "empty": b"abcdef&",
        "ampersands": b"&",
        "escaped names": b"%61%62&",
        "escaped known name": b"%77atch=%zz&",
        "limit": b"limit=1&",
        "limit with bad escape": b"limit=%&",
        "limit with semicolon": b"limit=;&",
        "timeout with bad escape": b"timeout=%&",
        "timeout": b"timeout=&",
        "pretty with bad escape": b"pretty=%&",
    }


def _in_target(before: bytes, shape: Shape, extra: bytes) -> Builder:
    return lambda size: _head(b"GET " + before + shape(size), extra)


def _header_values() -> Iterator[tuple[str, Builder]]:
    for header in HEADERS:
        for shape_name, shape in IN_VALUES.items():
            yield f"header {header} {shape_name}", _in_header(header.encode(), shape)
    for shape_name, shape in {**PRINTABLE, **NOT_ASCII}.items():
        yield f"header name {shape_name}", _in_header_name(shape)
        yield (
            f"header Authorization Bearer {shape_name}",
            _in_header(b"Authorization", _after(b"Bearer " + NUMBER, shape)),
        )


def _after(before: bytes, shape: Shape) -> Shape:
    return lambda size: before + shape(size)


def _in_header(name: bytes, shape: Shape) -> Builder:
    if name == b"Host":
        return lambda size: b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % shape(size)
    return lambda size: _head(b"GET /", b"%b: %b\r\n" % (name, shape(size)))


def _in_header_name(shape: Shape) -> Builder:
    return lambda size: _head(b"GET /", b"Impersonate-Extra-%b: a\r\n" % shape(size))


def _header_lines(extra: bytes) -> Iterator[tuple[str, Builder]]:
    for header in HEADERS:
        name = header.encode()
        yield f"lines {header}", _in_lines(repeated(b"%b: a\r\n" % name), extra)
        yield f"lines {header} of 55 bytes", _in_lines(_padded(name), extra)
    for lines_name, unit in {
        "shortest": b"a:\r\n",
        "of one letter": b"a: b\r\n",
        "of 16 bytes": b"x-abcdefg: abc\r\n",
        "of 55 bytes": b"x-abcdefghijkl: " + b"a" * 37 + b"\r\n",
        "of 64 bytes": b"x-abcdefghijkl: " + b"a" * 46 + b"\r\n",
        "with blanks": b"a: \t \t \t \t\r\n",
        "underscores": b"x_a: b\r\n",
        "folded": b" a\r\n",
        "bare": b"\r\n",
    }.items():
        yield f"lines {lines_name}", _in_lines(repeated(unit), extra)


def _padded(name: bytes) -> Shape:
    return repeated(b"%b: %b\r\n" % (name, b"a" * max(1, 51 - len(name))))


def _in_lines(shape: Shape, extra: bytes) -> Builder:
    return lambda size: _head(b"GET /api/v1/pods", extra + shape(size))


def _web_sockets(extra: bytes) -> Iterator[tuple[str, Builder]]:
    for shape_name, shape in IN_VALUES.items():
        yield f"WebSocket {shape_name}", _offering(shape, extra)
        with_token = _after(_TOKEN + b"YQ,", shape)
        yield f"WebSocket and a token {shape_name}", _offering(with_token, extra)
    yield "WebSocket token", _offering(_after(_TOKEN, repeated(b"YWFh")), extra)
    yield "WebSocket tokens", _offering(repeated(_TOKEN + b"YQ,"), extra)


def _offering(shape: Shape, extra: bytes) -> Builder:
    def build(size: int) -> bytes:
        lines = _WEBSOCKET + extra + b"Sec-WebSocket-Protocol: %b\r\n" % shape(size)
        return _head(b"GET " + _EXECUTED, lines)

    return build


def _bodies() -> Iterator[tuple[str, Builder]]:
    chunks = {
        "of one byte": b"1\r\na\r\n",
        "of one byte and zeros": b"01\r\na\r\n",
        "of 16 bytes": b"10\r\n" + b"a" * 16 + b"\r\n",
        "with extensions": b"1;a\r\na\r\n",
        "of 256 bytes": b"100\r\n" + b"a" * 256 + b"\r\n",
    }
    for name, unit in chunks.items():
        yield f"chunks {name}", _chunked(repeated(unit, after=b"0\r\n\r\n"))
    yield "trailers", _chunked(repeated(b"a\r\n", before=b"0\r\n", after=b"\r\n"))
    yield "one trailer", _chunked(repeated(b"a", before=b"0\r\n", after=b"\r\n\r\n"))
    yield "one chunk extension", _chunked(repeated(b"a", before=b"1;", after=b"\r\na\r\n0\r\n\r\n"))
    yield (
        "body by its length",
        lambda size: _head(b"POST /api/v1/pods", b"Content-Length: %d\r\n" % size) + b"a" * size,
    )


def _chunked(shape: Shape) -> Builder:
    def build(size: int) -> bytes:
        return _head(b"POST /api/v1/pods", b"Transfer-Encoding: chunked\r\n") + shape(size)

    return build
