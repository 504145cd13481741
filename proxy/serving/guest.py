"""A client from the door to its leaving: its place, its address, its certificate, its deadline."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from proxy.serving.limits import SharedLimits
from proxy.wire.keepalive import is_unreachable, keep_alive
from proxy.wire.peer import Peer
from proxy.wire.secure_connection import SecureConnection
from proxy.wire.tls import TLSStream


class Guest(SecureConnection):
    """The part of a client's connection that knows nothing of requests."""

    def __init__(
        self, *, context: ssl.SSLContext, shared: SharedLimits, clock: Callable[[], float]
    ) -> None:
        super().__init__(TLSStream(context))
        self._limits = shared.limits
        self._heads = shared.heads
        self._door = shared.door
        self._clock = clock
        self._peer = Peer("")
        self._is_distrusted = False
        # When the client must have got on; the listener's sweep ends who is late. None while a
        # request is being served: how long that may take is not the connection's to say.
        self.deadline: float | None = None

    # --- for subclasses to fill in ---------------------------------------------------------

    def finish(self) -> None:
        """Close after what is being served; at once if nothing is."""

    # --- the event loop's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake's clock, if there is room for one more."""
        address = transport.get_extra_info("peername")
        self._peer = Peer(address[0] if address else "")
        if not self._door.lets_in(self, self._peer.address):
            self._is_closing = True
            cast("asyncio.Transport", transport).abort()  # we are only used with TCP
            return
        keep_alive(transport)
        self.deadline = self._clock() + self._limits.handshake_seconds
        super().connection_made(transport)

    def secured(self) -> None:
        """Take the certificate that was shown, and wait for a request."""
        self._peer = Peer(self._peer.address, self._tls.peer_certificate())
        self.deadline = self._clock() + self._limits.idle_seconds
        if self._is_distrusted:
            self.distrust_certificate()

    def connection_lost(self, _error: Exception | None) -> None:
        """Give the place back."""
        self._transport = None
        self._is_closing = True
        self.deadline = None
        self._door.left(self)

    # --- the listener's side ---------------------------------------------------------------

    def distrust_certificate(self) -> None:
        """Let no further request go by the certificate this connection has shown or will show.

        What is being served goes on to its end, as at the API server, which looks at a
        certificate when a request comes and never again: a watch ends within the hour, a tunnel
        with its client.
        """
        self._is_distrusted = True
        if self._peer.certificate is not None and not self._is_closing:
            self.finish()

    def cut_off_if_unreachable(self) -> None:
        """Let go of a client that answers nothing, not even on the level of TCP."""
        transport = self._transport
        if transport is not None and is_unreachable(
            transport, after_seconds=self._limits.unreachable_seconds
        ):
            self._abort()
