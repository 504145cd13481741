"""Client-side TLS sessions over memory buffers: ciphertext in, plaintext out. No sockets.

`ssl.MemoryBIO` measured faster than the event loop's own TLS. It also lets one connection object
own its bytes from the socket to the head parser.
"""

import contextlib
import ssl
import threading
from typing import Any, ClassVar


def build_client_context(
    ca_file: str | None, certificate_file: str | None, key_file: str | None
) -> ssl.SSLContext:
    """Return a context that trusts these CAs, or the system's, with an optional certificate.

    Blocks on file I/O. Raises OSError (ssl.SSLError is a subclass) for files that cannot be used.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 requires extensions that the CAs of several managed clusters do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if certificate_file:
        context.load_cert_chain(certificate_file, key_file)
    return context


# Maximum plaintext of one record, and so the maximum that one read can return.
_RECORD_BYTES = 16 * 1024
_thread_local = threading.local()


def _shared_buffers() -> tuple[ssl.MemoryBIO, ssl.MemoryBIO]:
    """Return the input and output buffer that all sessions of this thread share.

    OpenSSL stores partial records internally and writes whole ones. A buffer therefore holds data
    only during a read or a write. Buffers per session would each keep the largest size they ever
    reached, and there are many idle connections.
    """
    buffers: tuple[ssl.MemoryBIO, ssl.MemoryBIO] | None = getattr(_thread_local, "buffers", None)
    if buffers is None:
        buffers = _thread_local.buffers = ssl.MemoryBIO(), ssl.MemoryBIO()
    return buffers


class ClientTLS:
    """One TLS session, for use in one thread. Output ciphertext accumulates until it is read.

    Both buffers are empty when a method returns or raises. Bytes left in them would be taken for
    bytes of the next session.
    """

    __slots__ = (
        "_incoming",
        "_object",
        "_outgoing",
        "_pending_output",
        "_read",
        "_received",
        "_write",
        "is_ready",
        "peer_closed",
    )

    STEP_BYTES: ClassVar[int] = 128 * 1024
    """The preferred maximum of ciphertext per call."""

    def __init__(self, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        self._incoming, self._outgoing = _shared_buffers()
        wrapped = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )
        # The object below an SSLObject, whose methods only delegate to it.
        self._object: Any = wrapped._sslobj  # type: ignore[attr-defined]  # noqa: SLF001
        self._read = self._object.read
        self._write = self._object.write
        self._received = b""
        self._pending_output = b""
        self.is_ready = False
        self.peer_closed = False

    def handshake(self) -> bool:
        """Continue the handshake and return whether it is complete; raises ssl.SSLError."""
        if self.is_ready:
            return True
        self._feed_received()
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._empty_buffers()
        self.is_ready = True
        return True

    def receive(self, ciphertext: bytes | memoryview) -> None:
        """Accept bytes from the socket."""
        self._received += ciphertext

    def decrypt(self, ciphertext: bytes | memoryview) -> bytes:
        """Accept bytes from the socket and return all available plaintext."""
        if self._received:
            self.receive(ciphertext)
            return self.read()
        self._incoming.write(ciphertext)
        try:
            piece: bytes = self._read(_RECORD_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return self.read()  # distinguishes the two cases
        except Exception:
            self._empty_buffers()
            raise
        # Nearly always: one record, nothing of the next one, and no output due.
        if (
            piece
            and len(piece) < _RECORD_BYTES
            and not self._incoming.pending
            and not self._outgoing.pending
        ):
            return piece
        return self.read(piece)

    def read(self, first: bytes = b"") -> bytes:
        """Return `first` and all available plaintext; sets `peer_closed` on close_notify."""
        pieces = [first]
        if self._received:
            self._feed_received()
        incoming, read = self._incoming, self._read
        try:
            while piece := read(_RECORD_BYTES):
                pieces.append(piece)
                # Reading when nothing is left to decrypt would raise, which costs more than this
                # check. OpenSSL reads record by record from the BIO, so unread records are still
                # there. A read that returned less than a full record has emptied that record.
                if len(piece) < _RECORD_BYTES and not incoming.pending:
                    break
            else:
                self.peer_closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.peer_closed = True
        finally:
            self._empty_buffers()
        return b"".join(pieces)

    def write(self, plaintext: bytes) -> bytes:
        """Encrypt plaintext and return it with all other pending output."""
        try:
            if plaintext:
                self._write(plaintext)
        finally:
            # Same as `read_output`, inlined because this runs for every request.
            output, self._pending_output = self._pending_output + self._outgoing.read(), b""
        return output

    def read_output(self) -> bytes:
        """Return pending output: handshake messages, alerts, tickets."""
        output, self._pending_output = self._pending_output + self._outgoing.read(), b""
        return output

    def close(self) -> bytes:
        """Close the write side; return the ciphertext of the close_notify alert."""
        # The peer need not respond with its own close_notify; the proxy never waits for it.
        with contextlib.suppress(ssl.SSLError):
            self._object.shutdown()
        return self.read_output()

    def _feed_received(self) -> None:
        """Move received ciphertext into the session's input buffer."""
        self._incoming.write(self._received)
        self._received = b""

    def _empty_buffers(self) -> None:
        """Move the rest of both buffers, pending output and unread input, into this session."""
        if self._outgoing.pending:
            self._pending_output += self._outgoing.read()
        if self._incoming.pending:
            self._received = self._incoming.read()
