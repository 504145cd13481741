"""A client from the door to its leaving: its place, its address, its certificate, its deadline."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from OpenSSL import SSL

from proxy.concurrency.rate_limit import address_key
from proxy.serving.limits.connections import ConnectionLimits, ListenerState
from proxy.serving.limits.handshakes import (
    CERTIFICATE,
    EVICTED,
    LEFT,
    TIMEOUT,
    WaitingStep,
    failure_reason,
)
from proxy.serving.limits.unauthenticated_memory import MemoryReservation
from proxy.wire.exchange import Peer
from proxy.wire.tcp import SentBytes, enable_tcp_keepalive, is_unreachable, sent_bytes
from proxy.wire.tls_connection import TLSConnection
from proxy.wire.tls_server import ServerTLS

# OpenSSL keeps a certificate as it came and parsed, and the peer keeps it as it came.
_CERTIFICATE_COPIES = 4
# A buffer of TLS stays as large as it once was. What a handshake needs is below this.
_LARGE_HANDSHAKE_BYTES = 16 * 1024
# What may follow a handshake in the same read of the socket. Both event loops read at most 256 KiB
# at once, and nothing is read after the first bytes that have to wait.
_READ_BYTES = 256 * 1024


class ClientTransport(TLSConnection):
    """The part of a client's connection that knows nothing of requests."""

    __slots__ = (
        "_budget",
        "_certificate_bytes",
        "_clock",
        "_door",
        "_failures",
        "_handshake",
        "_handshake_bytes",
        "_handshake_fault",
        "_handshake_until",
        "_held",
        "_holding",
        "_idle_seconds",
        "_limits",
        "_peer",
        "_turns",
        "_waiting",
        "deadline",
        "is_authenticated",
    )

    def __init__(
        self, *, context: SSL.Context, shared: ListenerState, clock: Callable[[], float]
    ) -> None:
        tls = ServerTLS(context, handshake_bytes=shared.limits.handshake_bytes)
        super().__init__(tls)
        self._handshake = tls
        self._limits = shared.limits
        self._budget = shared.budget
        self._holding: MemoryReservation | None = None
        self._certificate_bytes = self._handshake_bytes = 0
        self._idle_seconds = shared.limits.unauthenticated_idle_seconds
        self._door = shared.door
        self._failures = shared.failures
        self._turns = shared.handshakes
        # What came of a handshake that waits for its turn.
        self._held: list[bytes] | None = None
        self._waiting: WaitingStep | None = None
        self._clock = clock
        self._peer = Peer("")
        self._handshake_until = 0.0
        self._handshake_fault: str | None = None
        # Whether a request on this connection was authenticated, other than as anonymous.
        self.is_authenticated = False
        # When the client must have got on; the listener's sweep ends who is late. None while a
        # request is being served: how long that may take is not the connection's to say.
        self.deadline: float | None = None

    # --- the event loop's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake's clock, if there is room for one more."""
        address = transport.get_extra_info("peername")
        self._peer = Peer(address[0] if address else "")
        if not self._door.try_acquire(self, self._peer.address):
            self._is_closing = True
            cast("asyncio.Transport", transport).abort()  # we are only used with TCP
            return
        enable_tcp_keepalive(transport)
        self.deadline = self._handshake_until = self._clock() + self._limits.handshake_seconds
        super().connection_made(transport)

    def handshake_completed(self) -> None:
        """Take the certificates that were shown, and wait for a request."""
        chain = self._handshake.peer_chain()
        self._peer = Peer(self._peer.address, chain)
        self.deadline = self._clock() + self._idle_seconds
        self._door.renew(self)
        if self._handshake_bytes > _LARGE_HANDSHAKE_BYTES:
            self._handshake.release_buffers()
        self._certificate_bytes = _CERTIFICATE_COPIES * sum(map(len, chain))
        self._hold(0)

    def connection_lost(self, _error: Exception | None) -> None:
        """Give the place back."""
        if not self._handshake.is_ready and self._transport is not None:
            in_time = self._clock() < self._handshake_until
            self._failures.add(self._handshake_fault or (LEFT if in_time else TIMEOUT))
        self._transport = None
        self._is_closing = True
        self.deadline = None
        self._door.release(self)
        self._drop_held()
        holding, self._holding = self._holding, None
        if holding is not None:
            holding.release()

    def _first_words(self, data: bytes | memoryview) -> bytes:
        """Go on with the handshake, or let it wait if this turn of the loop has had enough."""
        self._handshake_bytes += len(data)
        self._hold(self._handshake_bytes)
        if self._is_closing:
            return b""
        turns = self._turns
        if self._held is not None:
            self._held.append(bytes(data))
            self._check_held(self._held)
        elif turns.has_time:
            started = turns.started()
            try:
                return super()._first_words(data)
            finally:
                turns.spent(started)
        else:
            self._held = [bytes(data)]
            self._set_reading(reads=False)
            self._waiting = turns.wait(address_key(self._peer.address), self._resume)
            self._check_held(self._held)
        return b""

    def _check_held(self, held: list[bytes]) -> None:
        """Cut off a client with more than a handshake and what may follow it.

        TLS applies the same limit, but only when the handshake has its turn.
        """
        most = self._limits.handshake_bytes
        if sum(map(len, held)) != self._handshake_bytes:
            # The handshake has begun, and a client sends its request with the last part of it.
            # Before our first answer it has nothing to encrypt a request with.
            most += _READ_BYTES
        if self._handshake_bytes > most:
            self._handshake_fault = CERTIFICATE
            self._drop_held()
            self._abort()

    def _drop_held(self) -> None:
        """Let go of what waits for its turn, and leave the line."""
        waiting, self._waiting, self._held = self._waiting, None, None
        if waiting is not None:
            waiting.cancel()

    def _resume(self) -> None:
        """Take what was held, in its turn."""
        held, self._held, self._waiting = self._held, None, None
        if held is not None and self.is_open:
            self._set_reading(reads=True)
            waited = b"".join(held)
            self._handshake_bytes -= len(waited)  # It is counted again when it is taken.
            self.data_received(waited)

    def _do_handshake(self) -> bool:
        try:
            return super()._do_handshake()
        except ssl.SSLError as error:
            self._handshake_fault = failure_reason(error)
            raise

    # --- the listener's side ---------------------------------------------------------------

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Give the client these times from now on; a deadline that is set stays."""
        self._limits = limits
        self._idle_seconds = (
            limits.idle_seconds if self.is_authenticated else limits.unauthenticated_idle_seconds
        )

    def evict(self) -> None:
        """Close at once: the place is given to a newcomer."""
        # Not counted from here on: otherwise the budget would be as full as before, and evict the
        # next one. A connection that closes for another reason counts them until it is lost.
        self._certificate_bytes = 0
        self._drop_held()
        if not self._handshake.is_ready:
            self._handshake_fault = EVICTED
        if not self._handshake.is_ready or self._is_closing or self.is_sending:
            self._abort()
        else:
            self.close()

    def close(self, *, says_goodbye: bool = True) -> None:
        """Close, as soon as what was written is sent."""
        # Time for a slow client to take the last of its answer; then it is cut off.
        self.deadline = self._clock() + self._idle_seconds
        self._close(says_goodbye=says_goodbye)

    def cut_off(self) -> None:
        """Close at once; what was written and not yet sent is dropped."""
        self._abort()

    def sent_bytes(self) -> SentBytes | None:
        """Return what the client has taken and what it has not."""
        return None if self._transport is None else sent_bytes(self._transport)

    def abort_if_unreachable(self) -> None:
        """Let go of a client that answers nothing, not even on the level of TCP."""
        transport = self._transport
        if transport is not None and is_unreachable(
            transport, after_seconds=self._limits.unreachable_seconds
        ):
            self._abort()

    # --- memory before authentication ------------------------------------------------------

    def reject_pending(self) -> None:
        """Let go of what is held here: it is the most of all that is held. May be extended."""
        self.evict()

    def caller_authenticated(self, *, is_anonymous: bool) -> None:
        """Count nothing for the request that is being served: its caller is known."""
        if not is_anonymous and not self.is_authenticated:
            self.is_authenticated = True
            self._certificate_bytes = 0
            self._idle_seconds = self._limits.idle_seconds
            self._door.mark_authenticated(self)
        if self._holding is not None:
            self._hold(0)

    def _hold(self, count: int) -> None:
        """Count this many bytes for a caller that is not authenticated, beside its certificates."""
        total, holding = self._certificate_bytes + count, self._holding
        if holding is None:
            if not total or self._transport is None:
                return
            origin = address_key(self._peer.address)
            holding = self._holding = self._budget.open(origin, self.reject_pending)
        if total:
            holding.resize(total)
        else:
            # Whoever is authenticated holds nothing, and is asked for nothing with each request.
            self._holding = None
            holding.release()
