"""One client connection: TLS, then one request at a time.

Bytes that cannot be processed yet wait in one buffer. It is bounded: above the limit the socket is
not read. No request is parsed while the client has not read earlier responses.
"""

import asyncio
import math
from collections.abc import Callable

from OpenSSL import SSL

from proxy.core.errors import TooManyRequests
from proxy.serving.client_transport import ClientTransport
from proxy.serving.exchange import ServerExchange
from proxy.serving.exchange_transport import ConnectionReuse, ExchangeKind
from proxy.serving.handlers import RequestHandler
from proxy.serving.limits.connections import ListenerState
from proxy.serving.limits.unauthenticated_memory import waiting_bytes
from proxy.serving.request_head_reader import RejectedHead, RequestHeadReader
from proxy.wire.http1.body import (
    NO_BODY,
    BodyError,
    BodyReader,
    UntilCloseReader,
    body_reader,
)
from proxy.wire.http1.message import UNPARSED_HEAD, RequestHead

_MAX_WAITING_BYTES = 64 * 1024
_MAX_HEADS_PER_ITERATION = 16


class ClientConnection(ClientTransport):
    """A client's TLS connection as a state machine."""

    __slots__ = (
        "_body",
        "_heads",
        "_is_body_blocked",
        "_is_parsing",
        "_on_lost",
        "_waiting_head_bytes",
        "exchange",
        "handler",
        "has_received_request",
        "retires_at",
    )

    def __init__(
        self,
        *,
        context: SSL.Context,
        handler: RequestHandler,
        shared: ListenerState,
        clock: Callable[[], float],
        on_lost: Callable[["ClientConnection"], None],
    ) -> None:
        super().__init__(context=context, shared=shared, clock=clock)
        self.handler = handler
        self._on_lost = on_lost
        self._heads = RequestHeadReader()
        self._waiting_head_bytes = 0
        # The exchange in progress.
        self.exchange: ServerExchange | None = None
        self._body: BodyReader | None = None
        self._is_parsing = self.has_received_request = False
        # Whether the upstream reads no request body.
        self._is_body_blocked = False
        self.retires_at = math.inf

    # --- asyncio protocol methods ---------------------------------------------------------

    def plaintext_received(self, data: bytes) -> None:
        """Process a part of a body, or buffer bytes that have to wait."""
        exchange, heads = self.exchange, self._heads
        if exchange is None:
            if heads.buffer or self.is_write_blocked:
                self._buffer_request(data)
                return
            try:
                request = heads.read_single(data, self._limits)
            except RejectedHead as rejected:
                self._reject_head(rejected)
                return
            if request is None:
                self._process_buffered()
            else:
                self._serve(request, len(data))
        elif exchange.receiver is not None and self._body is not None:
            self._body_received(data)
        else:
            self._heads.buffer += data
            if exchange.receiver is None and not exchange.is_authenticated:
                self._reserve_waiting()
            self._update_reading()

    def close_notify_received(self) -> None:
        """Close: HTTP clients that await a response keep their side open."""
        self.close()

    def connection_truncated(self, _error: Exception) -> None:
        """Close: the client's stream broke."""
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Report the disconnect to the exchange and the listener."""
        super().connection_lost(error)
        self._drop_buffered()
        self._disconnect_exchange()
        self._on_lost(self)

    def pause_writing(self) -> None:
        """Stop the source of the response: the client reads too slowly."""
        super().pause_writing()
        exchange = self.exchange
        if exchange is not None and exchange.receiver is not None:
            exchange.receiver.pause_response()
        elif not self.is_authenticated:
            self._reserve_waiting()
        if exchange is None:
            # Batched responses may be sent after their exchange. Nothing else updates reading then.
            self._update_reading()

    def resume_writing(self) -> None:
        """Resume the source of the response: the client has caught up."""
        super().resume_writing()
        exchange = self.exchange
        if exchange is None:
            if self._reservation is not None:
                self._reserve(0)
            self._process_buffered()
        elif exchange.receiver is not None:
            exchange.receiver.resume_response()
        elif self._reservation is not None:
            self._reserve_waiting()

    # --- called by the exchange -----------------------------------------------------------

    def pause_body(self) -> None:
        """Stop reading the request body."""
        self._is_body_blocked = True
        self._update_reading()

    def resume_body(self) -> None:
        """Continue reading the request body."""
        self._is_body_blocked = False
        self._update_reading()

    def deliver_body(self) -> None:
        """Deliver the buffered body to the receiver, and all later data as it arrives."""
        exchange = self.exchange
        if exchange is None or exchange.receiver is None:
            return
        if self.is_write_blocked:
            exchange.receiver.pause_response()
        if self._body is None:
            return
        waiting = bytes(self._heads.buffer)
        self._heads.buffer.clear()
        if waiting:
            self._body_received(waiting)
        self._update_reading()

    def release_idle_memory(self) -> None:
        """Free memory that an idle stream does not need; there may be thousands of streams."""
        self._heads.clear_cache()
        self._server_tls.release_buffers()

    def open_tunnel(self) -> None:
        """Treat all following bytes as the body, until either side ends.

        Bytes received before the switch were sent before the client could know of it. No Kubernetes
        client does that. Such bytes must not be interpreted in any way, so the exchange ends.
        """
        if self.exchange is None:
            return
        if self._heads.buffer:
            self.exchange.disconnected()
            return
        self._body = UntilCloseReader()
        self._update_reading()

    def exchange_ended(self, ending: ConnectionReuse) -> None:
        """Continue with the next request, or close as `ending` requires."""
        exchange, self.exchange = self.exchange, None
        if exchange is None or self._is_closing:
            return
        if not self.is_authenticated:
            self._release_unauthenticated()
        elif self._reservation is not None:
            # A waiting request that was rejected. Its connection may continue, and the next request
            # must not be rejected for what this one held.
            self._reserve(0)
        if ending is ConnectionReuse.REUSABLE:
            self.deadline = self._clock() + self._idle_seconds
            if self._is_parsing:
                return
            if self._heads.buffer:
                self._process_buffered()
            elif self.is_write_blocked or not self._is_reading:
                self._update_reading()
        else:
            self._close_after_response(ending, exchange)

    def close(self, *, sends_close_notify: bool = True) -> None:
        """Close after sending written data."""
        exchange = self.exchange
        if (
            exchange is not None
            and exchange.has_started
            and exchange.kind is not ExchangeKind.TUNNEL
        ):
            # For a body delimited by the connection, close_notify would be its regular end. Data in
            # a tunnel has its own end.
            sends_close_notify = False
        super().close(sends_close_notify=sends_close_notify)
        self._drop_buffered()
        self._disconnect_exchange()

    def reject_pending(self) -> None:
        """Free the memory held here, send an error to the client, and close."""
        exchange = self.exchange
        if self.is_authenticated and exchange is not None and exchange.receiver is not None:
            # The limit of requests in flight bounds its memory. The count is of an earlier request.
            self._reserve(0)
            return
        # Not counted from here on: the connection closes, and the next largest must not be evicted.
        self._certificate_bytes = 0
        # Nothing was forwarded, so the client can safely retry.
        error = TooManyRequests(
            "too much memory is held for unauthenticated requests, please try again later",
            retry_after_seconds=1,
        )
        if not self._server_tls.is_ready or self.is_write_blocked or self._is_closing:
            self.evict()
        elif exchange is not None and exchange.reject_pending(error):
            self._heads.buffer.clear()
            self._drop_queued()
        elif exchange is None and self._heads.buffer:
            self._reject_head(RejectedHead(error, UNPARSED_HEAD))
        else:
            self.evict()

    # --- internals ------------------------------------------------------------------------

    def _body_received(self, data: bytes) -> None:
        exchange, body = self.exchange, self._body
        if exchange is None or exchange.receiver is None or body is None:
            return
        receiver = exchange.receiver
        try:
            payload, rest = body.feed(data)
        except BodyError as error:
            receiver.request_failed(error)
            return
        if rest is not None:
            self._body = None
            self._heads.buffer += rest
            exchange.is_body_read = True
        if payload:
            receiver.request_data(payload)
        if rest is not None:
            receiver.request_ended()

    def _update_reading(self) -> None:
        """Pause or resume the socket, so that it is read only while data can be processed."""
        exchange = self.exchange
        if exchange is None:
            reads = not self.is_write_blocked
        elif exchange.receiver is not None and self._body is not None:
            reads = not self._is_body_blocked
        else:
            reads = len(self._heads.buffer) <= _MAX_WAITING_BYTES
        self._set_reading(reads=reads and self._queued_step is None)

    def _buffer_request(self, data: bytes) -> None:
        """Buffer data that follows an incomplete head, or that has to wait for the client."""
        self._heads.buffer += data
        if self.is_write_blocked and not self.is_authenticated:
            self._reserve_waiting()
        self._process_buffered()

    def _process_buffered(self) -> None:
        """Serve the buffered requests in a loop, so that pipelining cannot deepen the stack."""
        self._is_parsing = True
        parsed, most = 0, _MAX_HEADS_PER_ITERATION if self.is_authenticated else 1
        try:
            while self.exchange is None and self._heads.buffer and not self.is_write_blocked:
                if parsed == most or self._is_closing or not self._read_head():
                    break
                parsed += 1
        finally:
            self._is_parsing = False
        # Thousands of pipelined requests must not delay other connections, so the rest waits.
        if parsed < most or not self._heads.buffer:
            self._update_reading()
        elif self.is_authenticated:
            self._set_reading(reads=False)
            asyncio.get_running_loop().call_soon(self._process_buffered)
        else:
            self._queue_step()

    def _read_head(self) -> bool:
        """Serve the next buffered request; return False if there is no complete one."""
        heads = self._heads
        is_first_part, size = heads.searched == 0, len(heads.buffer)
        try:
            request = heads.read_next(self._limits)
        except RejectedHead as rejected:
            if self._reservation is not None:
                self._reserve(0)
            self._reject_head(rejected)
            return False
        if request is None:
            if is_first_part:
                self.deadline = self._clock() + self._limits.head_seconds
            self._reserve(waiting_bytes(0, size))
            return False
        if self._reservation is not None:
            self._reserve(0)
        self._serve(request, size - len(heads.buffer))
        return True

    def _serve(self, request: RequestHead, head_bytes: int) -> None:
        self.deadline = None
        framing = request.framing
        self._body = None if framing is NO_BODY else body_reader(framing)
        self._is_body_blocked = False
        exchange = self.exchange = ServerExchange(self, request, self._peer)
        self.has_received_request = True
        self.handler.handle(exchange)
        # A forwarded request has a receiver. A request with a response is no longer in progress.
        if (
            exchange.receiver is None
            and not exchange.is_authenticated
            and self.exchange is exchange
        ):
            self._waiting_head_bytes = head_bytes
            self._limiter.mark_active(self)
            self._reserve_waiting()

    def _reserve_waiting(self) -> None:
        """Reserve memory for waiting data: an unauthenticated head, bytes after it, responses.

        An authenticated request counts nothing here: the limit of requests in flight bounds it.
        """
        exchange, head_bytes = self.exchange, 0
        if exchange is not None:
            if exchange.receiver is not None or exchange.is_authenticated:
                self._reserve(0)
                return
            head_bytes = self._waiting_head_bytes
        elif self.is_authenticated:
            self._reserve(0)
            return
        bytes_behind = len(self._heads.buffer) + self._queued_size()
        self._reserve(self._unsent_bytes() + waiting_bytes(head_bytes, bytes_behind))

    def _release_unauthenticated(self) -> None:
        """Free the memory of a rejected request that an idle connection does not need."""
        self._waiting_head_bytes = 0
        self.release_idle_memory()
        self._limiter.mark_active(self)
        if self.is_write_blocked:
            self._reserve_waiting()
        elif self._reservation is not None:
            self._reserve(0)

    def _reject_head(self, rejected: RejectedHead) -> None:
        """Reject a head that cannot be served, and close: the start of the next one is unknown."""
        exchange = self.exchange = ServerExchange(self, rejected.request, self._peer)
        exchange.is_body_read = False
        self.handler.reject(exchange, rejected.error)

    def _drop_buffered(self) -> None:
        self._heads.buffer.clear()
        self._drop_queued()
        unsent = self._unsent_bytes()
        if unsent or self._reservation is not None:
            # The last responses are held until the client has read them, or is aborted.
            self._reserve(unsent)

    def _close_after_response(self, ending: ConnectionReuse, exchange: ServerExchange) -> None:
        """Close after the last response."""
        if ending is ConnectionReuse.ABORT:
            # No close_notify, for the same reason as in `close`.
            self.close(sends_close_notify=False)
        elif self._heads.buffer or exchange.client_may_send_more:
            self._drop_buffered()
            self._body = None
            self._linger()
        else:
            self.close()

    def _disconnect_exchange(self) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.disconnected()
