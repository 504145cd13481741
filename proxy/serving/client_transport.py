"""The transport of a client connection: limits, address, certificate chain, deadline, memory."""

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
    failure_reason,
)
from proxy.serving.limits.unauthenticated_input import QueuedStep
from proxy.serving.limits.unauthenticated_memory import MemoryReservation
from proxy.wire.exchange import Peer
from proxy.wire.tcp import SentBytes, enable_tcp_keepalive, is_unreachable, sent_bytes
from proxy.wire.tls_connection import TLSConnection
from proxy.wire.tls_server import ServerTLS

# OpenSSL keeps a certificate as received and as parsed, and `Peer` keeps it as received.
_CERTIFICATE_COPIES = 4
# A TLS buffer never shrinks. An ordinary handshake needs less than this.
_LARGE_HANDSHAKE_BYTES = 16 * 1024
# Maximum data that may follow a handshake in the same read. Both event loops read at most 256 KiB
# at once, and reading stops with the first bytes that have to wait.
_MAX_READ_BYTES = 256 * 1024
_LINGER_SECONDS = 2.0


class ClientTransport(TLSConnection):
    """The part of a client connection below HTTP."""

    __slots__ = (
        "_budget",
        "_certificate_bytes",
        "_clock",
        "_failures",
        "_handshake_bytes",
        "_handshake_deadline",
        "_handshake_failure",
        "_idle_seconds",
        "_is_lingering",
        "_limiter",
        "_limits",
        "_peer",
        "_queued_bytes",
        "_queued_step",
        "_reservation",
        "_scheduler",
        "_server_tls",
        "deadline",
        "is_authenticated",
        "is_write_blocked",
    )

    def __init__(
        self, *, context: SSL.Context, shared: ListenerState, clock: Callable[[], float]
    ) -> None:
        tls = ServerTLS(context, handshake_bytes=shared.limits.handshake_bytes)
        super().__init__(tls)
        self._server_tls = tls
        self._limits = shared.limits
        self._budget = shared.budget
        self._reservation: MemoryReservation | None = None
        self._certificate_bytes = self._handshake_bytes = 0
        self._idle_seconds = shared.limits.unauthenticated_idle_seconds
        self._limiter = shared.connection_limiter
        self._failures = shared.failures
        self._scheduler = shared.unauthenticated_input
        # Received bytes that wait for a later loop iteration. Later bytes must wait behind them.
        self._queued_bytes: list[bytes] | None = None
        self._queued_step: QueuedStep | None = None
        self._clock = clock
        self._peer = Peer("")
        self._handshake_deadline = 0.0
        self._handshake_failure: str | None = None
        # Whether a request on this connection was authenticated, other than as anonymous.
        self.is_authenticated = False
        self._is_paced = True
        self._is_lingering = False
        # Whether the client reads its responses too slowly.
        self.is_write_blocked = False
        # When the client must have made progress; the listener's sweep closes late connections.
        # None while a request is served: the connection does not limit how long that takes.
        self.deadline: float | None = None

    # --- asyncio protocol methods ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake and its timeout, if the connection limits allow it."""
        address = transport.get_extra_info("peername")
        self._peer = Peer(address[0] if address else "")
        if not self._limiter.try_acquire(self, self._peer.address):
            self._is_closing = True
            cast("asyncio.Transport", transport).abort()  # this class is only used with TCP
            return
        enable_tcp_keepalive(transport)
        self.deadline = self._handshake_deadline = self._clock() + self._limits.handshake_seconds
        super().connection_made(transport)

    def handshake_completed(self) -> None:
        """Store the presented certificates, and wait for a request."""
        chain = self._server_tls.peer_chain()
        self._peer = Peer(self._peer.address, chain)
        self.deadline = self._clock() + self._idle_seconds
        self._limiter.mark_active(self)
        if self._handshake_bytes > _LARGE_HANDSHAKE_BYTES:
            self._server_tls.release_buffers()
        self._certificate_bytes = _CERTIFICATE_COPIES * sum(map(len, chain))
        self._reserve(0)

    def connection_lost(self, _error: Exception | None) -> None:
        """Release the connection's slot and memory."""
        if not self._server_tls.is_ready and self._transport is not None:
            in_time = self._clock() < self._handshake_deadline
            self._failures.add(self._handshake_failure or (LEFT if in_time else TIMEOUT))
        self._transport = None
        self._is_closing = True
        self.deadline = None
        self._limiter.release(self)
        self._drop_queued()
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.release()

    def pause_writing(self) -> None:
        """Record that the client reads too slowly."""
        self.is_write_blocked = True

    def resume_writing(self) -> None:
        """Record that the client has caught up."""
        self.is_write_blocked = False

    def _receive_paced(self, data: bytes | memoryview) -> None:
        """Process input of an unauthenticated client, or queue it for a later loop iteration."""
        if not self._server_tls.is_ready:
            self._handshake_bytes += len(data)
            self._reserve(self._handshake_bytes)
            if self._is_closing:
                return
        queued = self._queued_bytes
        if queued is None and self._scheduler.has_time:
            started = self._scheduler.start_step()
            try:
                self._process(data)
            finally:
                self._scheduler.end_step(started)
            return
        if queued is None:
            queued = self._queued_bytes = []
        queued.append(bytes(data))
        self._queue_step()
        if self._server_tls.is_ready:
            self._reserve_waiting()
        else:
            self._check_queued_bytes(queued)

    def _process(self, data: bytes | memoryview) -> None:
        self._is_paced = False
        try:
            self.data_received(data)
        finally:
            self._is_paced = not self.is_authenticated

    def _check_queued_bytes(self, queued: list[bytes]) -> None:
        """Abort a client that sent more than a handshake and what may follow it.

        TLS applies the same limit, but only when the queued step runs.
        """
        max_bytes = self._limits.handshake_bytes
        if sum(map(len, queued)) != self._handshake_bytes:
            # The handshake has begun, and a client may send its request with the last part of it.
            # Before the proxy's first flight the client has no key to encrypt a request with.
            max_bytes += _MAX_READ_BYTES
        if self._handshake_bytes > max_bytes:
            self._handshake_failure = CERTIFICATE
            self._drop_queued()
            self._abort()

    def _drop_queued(self) -> None:
        """Drop the queued bytes, and cancel the queued step."""
        step, self._queued_step, self._queued_bytes = self._queued_step, None, None
        if step is not None:
            step.cancel()

    def _queue_step(self) -> None:
        """Continue in a later loop iteration, when it is the turn of this client's address."""
        self._set_reading(reads=False)
        if self._queued_step is None:
            origin = address_key(self._peer.address)
            self._queued_step = self._scheduler.enqueue(origin, self._run_step)

    def _run_step(self) -> None:
        """Process the queued bytes; called by the scheduler."""
        queued, self._queued_bytes, self._queued_step = self._queued_bytes, None, None
        if not self.is_open:
            return
        self._set_reading(reads=True)
        if queued is None:
            self._process_buffered()
        else:
            self._process(b"".join(queued))
        if self._reservation is not None and self._server_tls.is_ready:
            self._reserve_waiting()

    def _process_buffered(self) -> None:
        """Process plaintext that waits for this step; a subclass buffers it."""

    def _do_handshake(self) -> bool:
        try:
            return super()._do_handshake()
        except ssl.SSLError as error:
            self._handshake_failure = failure_reason(error)
            raise

    # --- called by the listener -----------------------------------------------------------

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Apply these limits from now on; a deadline that is already set stays."""
        self._limits = limits
        self._idle_seconds = (
            limits.idle_seconds if self.is_authenticated else limits.unauthenticated_idle_seconds
        )

    def evict(self) -> None:
        """Close immediately to make way for a new connection."""
        # Not counted from here on: otherwise the budget would stay exceeded, and evict the next
        # connection. A connection that closes for another reason counts them until it is lost.
        self._certificate_bytes = 0
        self._drop_queued()
        if not self._server_tls.is_ready:
            self._handshake_failure = EVICTED
        if not self._server_tls.is_ready or self._is_closing or self.is_sending:
            self._abort()
        else:
            self.close()

    def close(self, *, sends_close_notify: bool = True) -> None:
        """Close after sending written data."""
        self._is_lingering = False
        # Time for a slow client to read the rest of its response; then it is aborted.
        self.deadline = self._clock() + self._idle_seconds
        self._close(sends_close_notify=sends_close_notify)

    def expire(self) -> None:
        """Close a late connection; abort it if it is already closing and its data is not read."""
        if self._is_closing and not self._is_lingering:
            self._abort()
        else:
            self.close()

    def abort(self) -> None:
        """Close immediately; unsent data is dropped."""
        self._abort()

    def sent_bytes(self) -> SentBytes | None:
        """Return acknowledged and pending bytes."""
        return None if self._transport is None else sent_bytes(self._transport)

    def abort_if_unreachable(self) -> None:
        """Abort if the client does not respond even at the TCP level."""
        transport = self._transport
        if transport is not None and is_unreachable(
            transport, after_seconds=self._limits.unreachable_seconds
        ):
            self._abort()

    def _linger(self) -> None:
        """Close the write side now; input is read and discarded for _LINGER_SECONDS."""
        self._is_lingering = True
        self.deadline = self._clock() + _LINGER_SECONDS
        self._close_write_side()

    # --- memory before authentication -----------------------------------------------------

    def reject_pending(self) -> None:
        """Free the memory held here, the largest of all; a subclass may respond first."""
        self.evict()

    def caller_authenticated(self, *, is_anonymous: bool) -> None:
        """Stop counting memory for the current request: its caller is authenticated."""
        if not is_anonymous and not self.is_authenticated:
            self.is_authenticated = True
            self._certificate_bytes = 0
            self._idle_seconds = self._limits.idle_seconds
            self._limiter.mark_authenticated(self)
            # Queued bytes come first: until they are processed, later bytes are queued as well.
            self._is_paced = self._queued_bytes is not None
        if self._reservation is not None:
            self._reserve(0)

    def _reserve_waiting(self) -> None:
        """Reserve memory for data that waits; a subclass counts what it holds."""
        self._reserve(self._queued_size())

    def _unsent_bytes(self) -> int:
        """Return the unsent bytes of an unauthenticated client that reads slowly."""
        transport = self._transport
        if transport is None or self.is_authenticated or not self.is_write_blocked:
            return 0
        return transport.get_write_buffer_size()

    def _queued_size(self) -> int:
        return 0 if self._queued_bytes is None else sum(map(len, self._queued_bytes))

    def _reserve(self, count: int) -> None:
        """Reserve `count` bytes for an unauthenticated caller, in addition to certificates."""
        total, reservation = self._certificate_bytes + count, self._reservation
        if reservation is None:
            if not total or self._transport is None:
                return
            origin = address_key(self._peer.address)
            reservation = self._reservation = self._budget.open(origin, self.reject_pending)
        if total:
            reservation.resize(total)
        else:
            # Authenticated connections have no reservation, and so no cost per request.
            self._reservation = None
            reservation.release()
