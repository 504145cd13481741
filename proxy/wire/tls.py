"""TLS over memory: ciphertext in, plaintext out, and the reverse. No sockets.

`ssl.MemoryBIO` measured faster than the event loop's own TLS, and it lets one connection object
own its bytes from the socket to the head parser.
"""

import contextlib
import ssl

# The most plaintext one record carries, so the most that one read can return.
_RECORD_BYTES = 16 * 1024
# A memory BIO grows to the largest amount it ever held and never shrinks. In larger helpings each
# connection that has once carried something big would keep half a megabyte for as long as it lives.
_HELPING_BYTES = 64 * 1024
_NOTHING = memoryview(b"")


class TLSStream:
    """One TLS session. Ciphertext to send piles up until `take_output` fetches it."""

    __slots__ = (
        "_incoming",
        "_object",
        "_outgoing",
        "_read",
        "_received",
        "_write",
        "is_ready",
        "peer_closed",
    )

    def __init__(self, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )
        # The methods below those of SSLObject, which do nothing but call them.
        self._read = self._object._sslobj.read  # type: ignore[attr-defined]  # noqa: SLF001
        self._write = self._object._sslobj.write  # type: ignore[attr-defined]  # noqa: SLF001
        self._received = _NOTHING
        self.is_ready = False
        self.peer_closed = False

    def handshake(self) -> bool:
        """Go on with the handshake and tell whether it is done; a failure raises ssl.SSLError."""
        while not self.is_ready:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                if not self._take_helping():
                    return False
            else:
                self.is_ready = True
        return True

    def receive(self, ciphertext: bytes) -> None:
        """Take bytes from the socket."""
        if len(self._received) > 0:
            ciphertext = bytes(self._received) + ciphertext
        if len(ciphertext) <= _HELPING_BYTES:
            self._received = _NOTHING
            self._incoming.write(ciphertext)
        else:
            self._received = memoryview(ciphertext)
            self._take_helping()

    def decrypt(self, ciphertext: bytes) -> bytes:
        """Take bytes from the socket and return all plaintext there is."""
        if self._received or len(ciphertext) > _HELPING_BYTES:
            self.receive(ciphertext)
            return self.read()
        self._incoming.write(ciphertext)
        try:
            piece: bytes = self._read(_RECORD_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return self.read()  # which tells one from the other
        # One record, and no more of the next: nearly always.
        if piece and len(piece) < _RECORD_BYTES and not self._incoming.pending:
            return piece
        return piece + self.read()

    def read(self) -> bytes:
        """Return all plaintext there is; sets `peer_closed` when the peer has said goodbye."""
        pieces: list[bytes] = []
        while True:
            try:
                piece = self._read(_RECORD_BYTES)
            except ssl.SSLWantReadError:
                if self._take_helping():
                    continue
                break
            except ssl.SSLZeroReturnError:
                piece = b""
            if not piece:
                self.peer_closed = True
                break
            pieces.append(piece)
            # Asking when nothing is left to decrypt would raise, and that costs more than looking.
            # OpenSSL takes record by record from the BIO, so what it has not seen is still there;
            # a read that returned less than a full record has emptied the one it was reading.
            if (
                len(piece) < _RECORD_BYTES
                and not self._incoming.pending
                and len(self._received) == 0
            ):
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write(self, plaintext: bytes) -> bytes:
        """Return plaintext as ciphertext, together with whatever else is due."""
        if len(plaintext) <= _HELPING_BYTES:
            if plaintext:
                self._write(plaintext)
            return self._outgoing.read()
        view = memoryview(plaintext)
        pieces: list[bytes] = []
        while len(view) > 0:
            # A name of its own: the compiler evaluates what stands in a slice twice.
            count = self._object.write(view[:_HELPING_BYTES])
            view = view[count:]
            pieces.append(self._outgoing.read())
        return b"".join(pieces)

    def take_output(self) -> bytes:
        """Return ciphertext that is due: handshake messages, alerts, tickets."""
        return self._outgoing.read()

    def close(self) -> bytes:
        """Say goodbye; returns the ciphertext of the close alert."""
        # The peer need not answer our goodbye; we never wait for its own.
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()
        return self._outgoing.read()

    def _take_helping(self) -> bool:
        """Let the session have the next of the bytes received; False when there are none left."""
        if len(self._received) == 0:
            return False
        self._incoming.write(self._received[:_HELPING_BYTES])
        rest = self._received[_HELPING_BYTES:]
        # An empty view of them would still keep them all.
        self._received = rest if len(rest) > 0 else _NOTHING
        return True
