"""How a hostile answer of a backend is written down.

Each is what the backend puts on the wire. Whether kube-apiserver passes it on, repairs it or
refuses it is not written down: the test compares the proxy with kube-apiserver itself.
"""

from dataclasses import dataclass

from tests.e2e.backends.stage import Request
from tests.support.hostile_backend import Script, Then

MEBIBYTE = 1024 * 1024
# kube-apiserver reaches a Service, a Pod and a Node by the same code, a node with a certificate of
# its own. An aggregated server and the log of a container have code of their own.
PROXIED = ("service", "node", "aggregated")
ALL = (*PROXIED, "log")
EVERYWHERE = (*ALL, "service-tls", "pod", "follow")
# kube-apiserver passes on what it has of an answer five times a second.
FLUSH_SECONDS = 0.3
NEVER_SEEN = b"never-seen-by-anyone"
SMUGGLED = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nX-Smuggled: 1\r\n\r\n" + NEVER_SEEN
FINAL = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
JSON, YAML, PLAIN = "application/json", "application/yaml", "text/plain"
PROTOBUF = "application/vnd.kubernetes.protobuf"


GET = Request()


@dataclass(frozen=True, slots=True)
class Case:
    """One answer, how it is asked for, and on which routes."""

    script: Script
    request: Request = GET
    routes: tuple[str, ...] = PROXIED
    is_refused: bool = False
    """Whether the proxy refuses an answer that kube-apiserver passes on."""


def answer(
    *lines: str | bytes,
    body: bytes = b"hello",
    status: str = "200 OK",
    length: bool = True,
    version: str = "HTTP/1.1",
) -> bytes:
    """Return an answer with these header lines, its length, and a media type if none is given."""
    raw = [f"{version} {status}".encode("latin-1")]
    raw += [line if isinstance(line, bytes) else line.encode("latin-1") for line in lines]
    if not any(line.lower().startswith(b"content-type") for line in raw):
        # Without one kube-apiserver guesses, by how much of the body has come: a matter of time.
        raw.append(b"Content-Type: text/plain")
    if length:
        raw.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*raw, b"", b""]) + body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", lines: tuple[str, ...] = ()) -> bytes:
    """Return an answer whose body is these raw chunks."""
    head = answer("Transfer-Encoding: chunked", *lines, body=b"", length=False)
    return head + b"".join(chunks) + end


def closing(*pieces: bytes | float) -> Case:
    return Case(Script(pieces, Then.CLOSE), routes=ALL)


def keeping(*pieces: bytes | float) -> Case:
    return Case(Script(pieces), routes=ALL)


def flushed(*pieces: bytes, then: Then = Then.CLOSE) -> Case:
    """Close so late that kube-apiserver has passed on what came."""
    return Case(Script((*pieces, FLUSH_SECONDS), then), routes=("service", "aggregated", "follow"))


CHUNK = b"5\r\nhello\r\n"
IDENTITY_LINES = (
    "Impersonate-User: admin",
    "Impersonate-Group: system:masters",
    "X-Remote-User: admin",
    "Authorization: Bearer forged",
)
TRAILERS = (
    b"0\r\nImpersonate-User: admin\r\nAudit-Id: forged\r\nSet-Cookie: a=b\r\n"
    b"Content-Length: 0\r\nConnection: Content-Type\r\nX-Trailer: 1\r\n\r\n"
)
HEAD_REQUEST, GZIPPED = Request("HEAD"), Request(headers=(("Accept-Encoding", "gzip"),))


def interim_head(status: str, *lines: str) -> bytes:
    return answer(*lines, status=status, body=b"", length=False)
