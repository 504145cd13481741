"""TLS over memory: ciphertext in, plaintext out, and the reverse. No sockets.

`ssl.MemoryBIO` measured faster than the event loop's own TLS, and it lets one connection object
own its bytes from the socket to the head parser.
"""

import contextlib
import ssl
import threading
from typing import Any, ClassVar


def client_context(
    ca_file: str | None, certificate_file: str | None, key_file: str | None
) -> ssl.SSLContext:
    """Return a context that trusts these CAs, or the system's, and shows a certificate if any.

    Blocks on files. Raises OSError, of which ssl.SSLError is one, for what cannot be used.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 asks for extensions that the CAs of several managed clusters do not carry.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if certificate_file:
        context.load_cert_chain(certificate_file, key_file)
    return context


# The most plaintext one record carries, so the most that one read can return.
_RECORD_BYTES = 16 * 1024
_of_thread = threading.local()


def _shared_buffers() -> tuple[ssl.MemoryBIO, ssl.MemoryBIO]:
    """Return the way in and the way out of every session of this thread.

    OpenSSL keeps half a record to itself and writes whole ones, so a buffer holds something only
    while somebody reads or writes. Of its own each session would keep as much as the largest
    amount that ever passed through it, and idle connections are many.
    """
    buffers: tuple[ssl.MemoryBIO, ssl.MemoryBIO] | None = getattr(_of_thread, "buffers", None)
    if buffers is None:
        buffers = _of_thread.buffers = ssl.MemoryBIO(), ssl.MemoryBIO()
    return buffers


class ClientTLS:
    """One TLS session, for use in one thread. Ciphertext to send piles up until it is fetched.

    Whatever happens in a method, at its end both buffers are empty: what it leaves in them, a
    fault or not, would be taken for the next session's.
    """

    __slots__ = (
        "_due",
        "_incoming",
        "_object",
        "_outgoing",
        "_read",
        "_received",
        "_write",
        "is_ready",
        "peer_closed",
    )

    STEP_BYTES: ClassVar[int] = 128 * 1024
    """How much is best taken at once."""

    def __init__(self, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        self._incoming, self._outgoing = _shared_buffers()
        wrapped = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )
        # What is below an SSLObject, whose methods do nothing but call it.
        self._object: Any = wrapped._sslobj  # type: ignore[attr-defined]  # noqa: SLF001
        self._read = self._object.read
        self._write = self._object.write
        self._received = b""
        self._due = b""
        self.is_ready = False
        self.peer_closed = False

    def handshake(self) -> bool:
        """Go on with the handshake and tell whether it is done; a failure raises ssl.SSLError."""
        if self.is_ready:
            return True
        self._give_received()
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._empty_buffers()
        self.is_ready = True
        return True

    def receive(self, ciphertext: bytes | memoryview) -> None:
        """Take bytes from the socket."""
        self._received += ciphertext

    def decrypt(self, ciphertext: bytes | memoryview) -> bytes:
        """Take bytes from the socket and return all plaintext there is."""
        if self._received:
            self.receive(ciphertext)
            return self.read()
        self._incoming.write(ciphertext)
        try:
            piece: bytes = self._read(_RECORD_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return self.read()  # which tells one from the other
        except Exception:
            self._empty_buffers()
            raise
        # One record, no more of the next, and nothing to say to it: nearly always.
        if (
            piece
            and len(piece) < _RECORD_BYTES
            and not self._incoming.pending
            and not self._outgoing.pending
        ):
            return piece
        return self.read(piece)

    def read(self, first: bytes = b"") -> bytes:
        """Return all plaintext there is, after the first; knows then if the peer has left."""
        pieces = [first]
        if self._received:
            self._give_received()
        incoming, read = self._incoming, self._read
        try:
            while piece := read(_RECORD_BYTES):
                pieces.append(piece)
                # Asking when nothing is left to decrypt would raise, and that costs more than
                # looking. OpenSSL takes record by record from the BIO, so what it has not seen is
                # still there; a read that returned less than a full record has emptied the one it
                # was reading.
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
        """Return plaintext as ciphertext, together with whatever else is due."""
        try:
            if plaintext:
                self._write(plaintext)
        finally:
            # As `take_output` does; this is asked for every request.
            output, self._due = self._due + self._outgoing.read(), b""
        return output

    def read_output(self) -> bytes:
        """Return ciphertext that is due: handshake messages, alerts, tickets."""
        output, self._due = self._due + self._outgoing.read(), b""
        return output

    def close(self) -> bytes:
        """Say goodbye; returns the ciphertext of the close alert."""
        # The peer need not answer our goodbye; we never wait for its own.
        with contextlib.suppress(ssl.SSLError):
            self._object.shutdown()
        return self.read_output()

    def _give_received(self) -> None:
        """Let the session have what it has not seen yet."""
        self._incoming.write(self._received)
        self._received = b""

    def _empty_buffers(self) -> None:
        """Keep for ourselves what is left: what is due, and what was not read."""
        if self._outgoing.pending:
            self._due += self._outgoing.read()
        if self._incoming.pending:
            self._received = self._incoming.read()
