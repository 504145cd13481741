"""A TCP connection with TLS, shared by the client side and the API server side.

Subclasses receive plaintext, are notified how the stream ended, and choose how to close it.
"""

import asyncio
import ssl
from typing import cast

from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_server import ServerTLS
from proxy.wire.write_batcher import current_batcher

# Large enough that a large response is sent in a few writes, and at most what one read returns.
# A client that reads nothing makes the proxy hold this much, and there may be many such clients.
_MAX_UNSENT_BYTES = 256 * 1024


class TLSConnection:
    """TLS below, plaintext above. Subclasses override the event methods they need.

    It has the methods of an `asyncio.Protocol` (see `as_protocol`) but does not inherit from it. A
    class that can be compiled inherits only from compiled classes.
    """

    __slots__ = (
        "_batcher",
        "_is_closing",
        "_is_paced",
        "_is_reading",
        "_more_unsent",
        "_more_unsent_bytes",
        "_tls",
        "_transport",
        "_unsent",
    )

    def __init__(self, tls: ClientTLS | ServerTLS) -> None:
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        self._batcher = current_batcher()
        # Ciphertext to send at the end of this event-loop iteration: nearly always one piece, and
        # more for a large response.
        self._unsent: bytes | memoryview = b""
        self._more_unsent: list[bytes | memoryview] | None = None
        self._more_unsent_bytes = 0
        # Whether a subclass decides when received data is processed.
        self._is_paced = False
        # Set when this side closes. From then on nothing is written and input is ignored.
        self._is_closing = False

    def as_protocol(self) -> asyncio.Protocol:
        """Return this connection typed as the protocol that the event loop expects."""
        return cast("asyncio.Protocol", self)

    # --- events for subclasses ------------------------------------------------------------

    def _receive_paced(self, data: bytes | memoryview) -> None:
        """Process received data now or later; called instead of processing it if `_is_paced`."""
        raise NotImplementedError

    def handshake_completed(self) -> None:
        """Handle the completed handshake."""

    def plaintext_received(self, data: bytes) -> None:
        """Handle decrypted data from the peer."""

    def close_notify_received(self) -> None:
        """Handle the end of the stream that the peer has closed with close_notify."""

    def connection_truncated(self, error: Exception) -> None:
        """Handle a broken stream: a TLS error, or an end without close_notify."""

    # --- asyncio protocol methods ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._transport = cast("asyncio.Transport", transport)  # this class is only used with TCP
        self._do_handshake()

    def data_received(self, data: bytes | memoryview) -> None:
        """Decrypt received ciphertext and deliver the plaintext."""
        if self._is_closing:
            return
        if self._is_paced:
            self._receive_paced(data)
            return
        tls = self._tls
        if len(data) > tls.STEP_BYTES:
            self._receive_in_steps(data, tls.STEP_BYTES)
            return
        try:
            plaintext = tls.decrypt(data) if tls.is_ready else self._receive_handshake(data)
        except ssl.SSLError as error:
            # The pending output is the alert that reports the error to the peer.
            self._write_ciphertext(tls.read_output())
            self.connection_truncated(error)
            return
        if plaintext:
            # Other pending output, the response to a key update, is due only before the next write.
            self.plaintext_received(plaintext)
        else:
            self._write_ciphertext(tls.read_output())
        if tls.peer_closed and not self._is_closing:
            self.close_notify_received()

    def eof_received(self) -> bool:
        """Report a truncated stream: TCP ended without close_notify."""
        self.connection_truncated(ConnectionError("the connection ended without close_notify"))
        return False

    # --- operations for subclasses --------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Return whether data can be sent."""
        transport = self._transport
        return transport is not None and not self._is_closing and not transport.is_closing()

    @property
    def is_sending(self) -> bool:
        """Return whether written data is still unsent."""
        transport = self._transport
        return transport is not None and bool(self._unsent or transport.get_write_buffer_size())

    def write(self, plaintext: bytes) -> None:
        """Send plaintext if the connection is open, batched with other writes of this iteration."""
        transport = self._transport
        if transport is None or self._is_closing or transport.is_closing():
            return
        ciphertext, batcher = self._tls.write(plaintext), self._batcher
        if self._unsent:
            self._add_unsent(ciphertext)
        elif batcher.expects_single_writer and batcher.may_write_through():
            transport.write(ciphertext)
        else:
            self._unsent = ciphertext
            batcher.add(self)

    def send_unsent(self) -> None:
        """Pass the unsent ciphertext to the event loop."""
        unsent, more, transport = self._unsent, self._more_unsent, self._transport
        self._unsent = b""
        if more is not None:
            self._more_unsent, self._more_unsent_bytes = None, 0
            if transport is not None:
                transport.writelines((unsent, *more))
        elif unsent and transport is not None:
            transport.write(unsent)

    def _set_reading(self, *, reads: bool) -> None:
        """Resume or pause reading from the socket; while paused, data stays with the peer."""
        if self._is_reading == reads:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._is_reading = reads
        if reads:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _close(self, *, sends_close_notify: bool) -> None:
        """Close after sending written data; without close_notify the stream is truncated."""
        if self._transport is not None and not self._transport.is_closing():
            self._end_writing(sends_close_notify=sends_close_notify)
            self._transport.close()

    def _close_write_side(self) -> None:
        """Send close_notify and no more data, but continue to read and discard input.

        Closing the socket while bytes of the peer are unread resets the connection. A reset can
        make the peer lose data that was sent to it before.
        """
        if self.is_open and self._transport is not None:
            self._end_writing(sends_close_notify=True)
            self._transport.write_eof()
            self._set_reading(reads=True)

    def _abort(self) -> None:
        """Close immediately; unsent data is dropped."""
        self._is_closing = True
        self._unsent, self._more_unsent, self._more_unsent_bytes = b"", None, 0
        if self._transport is not None:
            self._transport.abort()

    # --- internals ------------------------------------------------------------------------

    def _add_unsent(self, ciphertext: bytes | memoryview) -> None:
        if self._more_unsent is None:
            self._more_unsent = []
        self._more_unsent.append(ciphertext)
        self._more_unsent_bytes += len(ciphertext)
        if self._more_unsent_bytes > _MAX_UNSENT_BYTES:
            self.send_unsent()

    def _receive_in_steps(self, data: bytes | memoryview, step: int) -> None:
        """Process data in steps small enough to stay in the processor's cache."""
        view = memoryview(data)
        for position in range(0, len(view), step):
            self.data_received(view[position : position + step])

    def _receive_handshake(self, data: bytes | memoryview) -> bytes:
        """Continue the handshake, and return the plaintext received after it."""
        self._tls.receive(data)
        return self._tls.read() if self._do_handshake() else b""

    def _do_handshake(self) -> bool:
        done = self._tls.handshake()
        self._write_ciphertext(self._tls.read_output())
        if done:
            self.handshake_completed()
        return done

    def _write_ciphertext(self, data: bytes) -> None:
        if data and self._transport is not None and not self._is_closing:
            self.send_unsent()
            self._transport.write(data)

    def _end_writing(self, *, sends_close_notify: bool) -> None:
        self.send_unsent()
        if sends_close_notify and self._tls.is_ready:
            self._write_ciphertext(self._tls.close())
        self._is_closing = True
