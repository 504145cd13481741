"""One TCP connection that speaks TLS, on either side: what both ends of the proxy share.

Whoever builds on it sees plaintext, hears how the stream ended, and chooses how to end it.
"""

import asyncio
import ssl
from typing import cast

from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_server import ServerTLS
from proxy.wire.write_batcher import current_batcher

# So much that a large answer leaves in a few writes, and no more than is read at once: a client
# that takes none of it, who may be one of many, has us hold as much.
_MOST_UNSENT_BYTES = 256 * 1024


class TLSConnection:
    """TLS below, plaintext above. Subclasses fill in what they want to hear of.

    It has the methods of an `asyncio.Protocol` and goes by that name (`as_protocol`), but
    does not inherit from it: a class that can be compiled inherits from nothing that is not.
    """

    __slots__ = (
        "_batcher",
        "_is_closing",
        "_is_reading",
        "_more_bytes",
        "_more_unsent",
        "_tls",
        "_transport",
        "_unsent",
    )

    def __init__(self, tls: ClientTLS | ServerTLS) -> None:
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        self._batcher = current_batcher()
        # Ciphertext that leaves at the end of this turn of the event loop: nearly always one piece,
        # of a large answer some more.
        self._unsent: bytes | memoryview = b""
        self._more_unsent: list[bytes | memoryview] | None = None
        self._more_bytes = 0
        # Set with our goodbye: from then on nothing is written and nothing that comes counts.
        self._is_closing = False

    def as_protocol(self) -> asyncio.Protocol:
        """Return this connection as what the event loop takes it for."""
        return cast("asyncio.Protocol", self)

    # --- for subclasses to fill in ---------------------------------------------------------

    def handshake_completed(self) -> None:
        """Hear that the handshake is done."""

    def plaintext_received(self, data: bytes) -> None:
        """Take what the peer sent."""

    def close_notify_received(self) -> None:
        """Hear that the peer has ended its stream, and said so."""

    def connection_truncated(self, error: Exception) -> None:
        """Hear that the stream broke: a TLS fault, or an end without a goodbye."""

    # --- the event loop's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._transport = cast("asyncio.Transport", transport)  # we are only used with TCP
        self._do_handshake()

    def data_received(self, data: bytes | memoryview) -> None:
        """Take ciphertext; hand on whatever plaintext it makes."""
        if self._is_closing:
            return
        tls = self._tls
        if len(data) > tls.STEP_BYTES:
            self._take_in_steps(data, tls.STEP_BYTES)
            return
        try:
            plaintext = tls.decrypt(data) if tls.is_ready else self._first_words(data)
        except ssl.SSLError as error:
            # What is due is the alert that tells the peer what we did not like.
            self._write_ciphertext(tls.read_output())
            self.connection_truncated(error)
            return
        if plaintext:
            # What else may be due, our part of a change of keys, is due before we write again.
            self.plaintext_received(plaintext)
        else:
            self._write_ciphertext(tls.read_output())
        if tls.peer_closed and not self._is_closing:
            self.close_notify_received()

    def eof_received(self) -> bool:
        """The end of TCP without the end of TLS: what is not delimited otherwise was cut."""
        self.connection_truncated(ConnectionError("the connection ended without a goodbye"))
        return False

    # --- for whoever builds on it ----------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Tell whether anything can be sent."""
        transport = self._transport
        return transport is not None and not self._is_closing and not transport.is_closing()

    @property
    def is_sending(self) -> bool:
        """Tell whether the peer has yet to take something of what was written."""
        transport = self._transport
        return transport is not None and bool(self._unsent or transport.get_write_buffer_size())

    def write(self, plaintext: bytes) -> None:
        """Send plaintext, if anything can be sent, with others of this turn if there are any."""
        transport = self._transport
        if transport is None or self._is_closing or transport.is_closing():
            return
        ciphertext, batcher = self._tls.write(plaintext), self._batcher
        if self._unsent:
            self._add_unsent(ciphertext)
        elif batcher.expect_write and batcher.may_write_through():
            transport.write(ciphertext)
        else:
            self._unsent = ciphertext
            batcher.add(self)

    def send_unsent(self) -> None:
        """Give the event loop what was written before."""
        unsent, more, transport = self._unsent, self._more_unsent, self._transport
        self._unsent = b""
        if more is not None:
            self._more_unsent, self._more_bytes = None, 0
            if transport is not None:
                transport.writelines((unsent, *more))
        elif unsent and transport is not None:
            transport.write(unsent)

    def _set_reading(self, *, reads: bool) -> None:
        """Take bytes from the socket, or let them pile up at the peer."""
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

    def _close(self, *, says_goodbye: bool) -> None:
        """Close once what was written is sent; without a goodbye the peer sees a cut stream."""
        if self._transport is not None and not self._transport.is_closing():
            self._end_writing(says_goodbye=says_goodbye)
            self._transport.close()

    def _close_our_side(self) -> None:
        """Say goodbye and send no more, but go on reading (and forgetting) what still comes.

        Closing outright while bytes of the peer are unread resets the connection, and a reset
        can make the peer lose what it was sent before.
        """
        if self.is_open and self._transport is not None:
            self._end_writing(says_goodbye=True)
            self._transport.write_eof()
            self._set_reading(reads=True)

    def _abort(self) -> None:
        """Close at once; what was written and not yet sent is dropped."""
        self._is_closing = True
        self._unsent, self._more_unsent, self._more_bytes = b"", None, 0
        if self._transport is not None:
            self._transport.abort()

    # --- inside ----------------------------------------------------------------------------

    def _add_unsent(self, ciphertext: bytes | memoryview) -> None:
        if self._more_unsent is None:
            self._more_unsent = []
        self._more_unsent.append(ciphertext)
        self._more_bytes += len(ciphertext)
        if self._more_bytes > _MOST_UNSENT_BYTES:
            self.send_unsent()

    def _take_in_steps(self, data: bytes | memoryview, step: int) -> None:
        """Take little enough that it stays in the processor's cache while it is worked on."""
        view = memoryview(data)
        for position in range(0, len(view), step):
            self.data_received(view[position : position + step])

    def _first_words(self, data: bytes | memoryview) -> bytes:
        """Go on with the handshake, and return what came after it."""
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

    def _end_writing(self, *, says_goodbye: bool) -> None:
        self.send_unsent()
        if says_goodbye and self._tls.is_ready:
            self._write_ciphertext(self._tls.close())
        self._is_closing = True
