"""A server that answers raw bytes by a script, and keeps what it received.

    with HostileBackend(ADDRESS, certificate) as backend:
        backend.script(7, Script(b"HTTP/1.1 200 OK\\r\\n..."))     # for targets with `case-7`
        backend.received(7)                                       # what came for it

One port speaks TLS and plain HTTP: the first byte of a connection tells which. Nothing here
parses or completes an answer: what a script holds goes on the wire as it is.
"""

import contextlib
import re
import socket
import ssl
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType, TracebackType
from typing import Self

_CASE = re.compile(rb"(?:case-|tailLines=)([0-9]+)")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
_TLS_HANDSHAKE = b"\x16"
_LAST_CHUNK = b"0\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_SECONDS = 30.0
_PIECE = 65536


class Then(Enum):
    """What follows the last byte of an answer."""

    KEEP = auto()
    CLOSE = auto()
    RESET = auto()


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came."""

    head: bytes
    body: bytes
    earlier: tuple[int, ...] = ()
    """The cases that were answered before it on the same connection."""

    @property
    def target(self) -> str:
        """The request's target."""
        return self.head.split(b" ", 2)[1].decode("latin-1")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The header lines, names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        pairs = (line.partition(":") for line in lines)
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    def values(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for key, value in self.headers if key == name.lower()]


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: pieces of bytes, with pauses where there are numbers (of seconds)."""

    pieces: tuple[bytes | float, ...]
    then: Then = Then.KEEP
    reads_body_first: bool = True
    """Whether the request's body is read before the answer begins, or only after it."""
    make: Callable[[Received], bytes] | None = None
    """Makes the answer from the request, in place of the pieces."""
    is_endless: bool = False
    """Whether the last piece is repeated until the other side has left."""


@dataclass(slots=True)
class _Cases:
    """What is known of the cases, for all connections."""

    scripts: dict[int, Script] = field(default_factory=dict)
    received: defaultdict[int, list[Received]] = field(default_factory=lambda: defaultdict(list))
    left: defaultdict[int, threading.Event] = field(
        default_factory=lambda: defaultdict(threading.Event)
    )
    raw: bytearray = field(default_factory=bytearray)
    lock: threading.Lock = field(default_factory=threading.Lock)


class HostileBackend:
    """Listens on a free port of an address while the context lasts."""

    def __init__(
        self,
        address: str,
        tls: ssl.SSLContext,
        *,
        pages: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """`pages` are answers to targets that belong to no case, such as discovery."""
        self._tls = tls
        self._pages = pages
        self._cases = _Cases()
        self._listener = socket.create_server((address, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()

    def script(self, case: int, script: Script) -> None:
        """Answer requests of this case so from now on."""
        self._cases.scripts[case] = script

    def received(self, case: int) -> list[Received]:
        """Return the requests of a case so far, and forget them."""
        with self._cases.lock:
            return self._cases.received.pop(case, [])

    def has_left(self, case: int) -> threading.Event:
        """Return what is set when the other side has left an endless answer."""
        return self._cases.left[case]

    def all_bytes(self) -> bytes:
        """Return every byte that was received so far, on every connection."""
        with self._cases.lock:
            return bytes(self._cases.raw)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # The listener is closed.
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_SECONDS)
        with contextlib.suppress(OSError, EOFError):
            first = connection.recv(1, socket.MSG_PEEK)
            if first == _TLS_HANDSHAKE:
                connection = self._tls.wrap_socket(connection, server_side=True)
            _Conversation(connection, self._cases, self._pages).serve()
        connection.close()


class _Conversation:
    """One connection."""

    def __init__(
        self, connection: socket.socket, cases: _Cases, pages: Mapping[str, bytes]
    ) -> None:
        self._connection = connection
        self._cases = cases
        self._pages = pages
        self._buffer = b""
        self._answered: list[int] = []

    def serve(self) -> None:
        """Answer one request after the other, until a script or the other side ends it."""
        while True:
            head = self._read_until(b"\r\n\r\n")
            case = _CASE.search(head.partition(b"\r\n")[0])
            if case is None:
                target = head.split(b" ", 2)[1].partition(b"?")[0].decode("latin-1")
                self._connection.sendall(self._pages.get(target, _NOT_FOUND))
            elif not self._play(int(case[1]), head):
                return

    def _play(self, number: int, head: bytes) -> bool:
        """Answer by the script of a case; tell whether the connection goes on."""
        script = self._cases.scripts[number]
        body = self._read_body(head) if script.reads_body_first else b""
        request = Received(head, body, tuple(self._answered))
        self._answered.append(number)
        with self._cases.lock:
            self._cases.received[number].append(request)
        try:
            self._send(script, request)
            if not script.reads_body_first:
                self._read_body(head)
        finally:
            if script.is_endless:
                self._cases.left[number].set()
        if script.then is Then.RESET:
            linger = struct.pack("ii", 1, 0)
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return script.then is Then.KEEP

    def _send(self, script: Script, request: Received) -> None:
        pieces = script.pieces if script.make is None else (script.make(request),)
        for piece in pieces:
            if isinstance(piece, bytes):
                self._connection.sendall(piece)
            else:
                time.sleep(piece)
        while script.is_endless:
            last = pieces[-1]
            assert isinstance(last, bytes)
            self._connection.sendall(last)

    def _read_body(self, head: bytes) -> bytes:
        if _CHUNKED.search(head):
            return self._read_until(_LAST_CHUNK)
        length = _LENGTH.search(head)
        wanted = int(length[1]) if length else 0
        while len(self._buffer) < wanted:
            self._buffer += self._receive()
        body, self._buffer = self._buffer[:wanted], self._buffer[wanted:]
        return body

    def _read_until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._buffer += self._receive()
        piece, _, self._buffer = self._buffer.partition(end)
        return piece + end

    def _receive(self) -> bytes:
        data = self._connection.recv(_PIECE)
        if not data:
            raise EOFError
        with self._cases.lock:
            self._cases.raw += data
        return data
