"""A client from the door to its leaving: its place, its address, its certificate, its deadline."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from OpenSSL import SSL

from proxy.serving.handshakes import LEFT, TIMEOUT, reason_of
from proxy.serving.limits import ConnectionLimits, SharedLimits
from proxy.wire.keepalive import is_unreachable, keep_alive
from proxy.wire.peer import Peer
from proxy.wire.secure_connection import SecureConnection
from proxy.wire.server_tls import ServerTLS


class Guest(SecureConnection):
    """The part of a client's connection that knows nothing of requests."""

    __slots__ = (
        "_clock",
        "_door",
        "_failures",
        "_handshake",
        "_handshake_fault",
        "_handshake_until",
        "_heads",
        "_limits",
        "_peer",
        "deadline",
    )

    def __init__(
        self, *, context: SSL.Context, shared: SharedLimits, clock: Callable[[], float]
    ) -> None:
        tls = ServerTLS(context)
        super().__init__(tls)
        self._handshake = tls
        self._limits = shared.limits
        self._heads = shared.heads
        self._door = shared.door
        self._failures = shared.failures
        self._clock = clock
        self._peer = Peer("")
        self._handshake_until = 0.0
        self._handshake_fault: str | None = None
        # When the client must have got on; the listener's sweep ends who is late. None while a
        # request is being served: how long that may take is not the connection's to say.
        self.deadline: float | None = None

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
        self.deadline = self._handshake_until = self._clock() + self._limits.handshake_seconds
        super().connection_made(transport)

    def secured(self) -> None:
        """Take the certificates that were shown, and wait for a request."""
        self._peer = Peer(self._peer.address, self._handshake.peer_chain())
        self.deadline = self._clock() + self._limits.idle_seconds

    def connection_lost(self, _error: Exception | None) -> None:
        """Give the place back."""
        if not self._handshake.is_ready and self._transport is not None:
            in_time = self._clock() < self._handshake_until
            self._failures.add(self._handshake_fault or (LEFT if in_time else TIMEOUT))
        self._transport = None
        self._is_closing = True
        self.deadline = None
        self._door.left(self)

    def _shake_hands(self) -> bool:
        try:
            return super()._shake_hands()
        except ssl.SSLError as error:
            self._handshake_fault = reason_of(error)
            raise

    # --- the listener's side ---------------------------------------------------------------

    def hold_to(self, limits: ConnectionLimits) -> None:
        """Give the client these times from now on; a deadline that is set stays."""
        self._limits = limits

    def cut_off_if_unreachable(self) -> None:
        """Let go of a client that answers nothing, not even on the level of TCP."""
        transport = self._transport
        if transport is not None and is_unreachable(
            transport, after_seconds=self._limits.unreachable_seconds
        ):
            self._abort()
