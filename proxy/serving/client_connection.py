"""One client connection: TLS, then one request at a time.

Bytes that cannot be processed yet wait in one buffer. It is bounded: above the limit the socket is
not read. No request is parsed while the client has not read earlier responses.
"""

import asyncio
import math
from collections.abc import Callable

from OpenSSL import SSL

from proxy.core.errors import StatusError, TooManyRequests
from proxy.core.requestinfo.request_info import check_target_length
from proxy.serving.client_transport import ClientTransport
from proxy.serving.exchange import ServerExchange
from proxy.serving.exchange_transport import ConnectionReuse, ExchangeKind
from proxy.serving.handlers import RequestHandler
from proxy.serving.limits.connections import ListenerState
from proxy.wire.http1.body import (
    NO_BODY,
    BodyError,
    BodyReader,
    UntilCloseReader,
    body_reader,
)
from proxy.wire.http1.message import (
    MAX_HEAD_BYTES,
    UNPARSED_HEAD,
    HeadTooLarge,
    RequestHead,
    check_header_lines,
    count_header_lines,
    find_head_end,
    incomplete_request,
)
from proxy.wire.http1.request_parser import CachingRequestParser

_MAX_WAITING_BYTES = 64 * 1024
# A head that waits for authentication is held as its lines, its token, that token's text, and the
# body of its review: measured in docs/decisions/0015.
_HEAD_COPIES = 4
# The size to which one large read grows the TLS buffer of a connection, for good.
_TLS_BUFFER_BYTES = 96 * 1024
_LINGER_SECONDS = 2.0
_MAX_HEADS_PER_ITERATION = 16
# An incomplete head is checked when it has grown past a multiple of this. Not with each read,
# because reads may be small.
_CHECK_INTERVAL_BYTES = 64 * 1024


class ClientConnection(ClientTransport):
    """A client's TLS connection as a state machine."""

    __slots__ = (
        "_body",
        "_buffer",
        "_exchange",
        "_is_body_blocked",
        "_is_lingering",
        "_is_parsing",
        "_on_lost",
        "_parser",
        "_searched",
        "_waiting_head_bytes",
        "handler",
        "has_received_request",
        "is_write_blocked",
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
        self._buffer = bytearray()
        self._searched = self._waiting_head_bytes = 0
        self._parser = CachingRequestParser()
        self._exchange: ServerExchange | None = None
        self._body: BodyReader | None = None
        self._is_parsing = self._is_lingering = self.has_received_request = False
        # Backpressure: the client reads no response, or the upstream reads no request body.
        self.is_write_blocked = self._is_body_blocked = False
        self.retires_at = math.inf

    @property
    def exchange(self) -> ServerExchange | None:
        """The exchange in progress."""
        return self._exchange

    # --- asyncio protocol methods ---------------------------------------------------------

    def plaintext_received(self, data: bytes) -> None:
        """Process a part of a body, or buffer bytes that have to wait."""
        exchange = self._exchange
        if exchange is None:
            if not self._buffer and not self.is_write_blocked:
                request = self._parser.parse_cached(data)
                if request is not None:
                    self._serve(request, len(data))
                    return
            self._buffer += data
            if self.is_write_blocked and not self.is_authenticated:
                self._reserve_waiting()
            self._read_heads()
        elif exchange.receiver is not None and self._body is not None:
            self._body_received(data)
        else:
            self._buffer += data
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
        self.is_write_blocked = True
        exchange = self._exchange
        if exchange is not None and exchange.receiver is not None:
            exchange.receiver.pause_response()
        elif not self.is_authenticated:
            self._reserve_waiting()
        if exchange is None:
            # Batched responses may be sent after their exchange. Nothing else updates reading then.
            self._update_reading()

    def resume_writing(self) -> None:
        """Resume the source of the response: the client has caught up."""
        self.is_write_blocked = False
        exchange = self._exchange
        if exchange is None:
            if self._reservation is not None:
                self._reserve(0)
            self._read_heads()
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
        exchange = self._exchange
        if exchange is None or exchange.receiver is None:
            return
        if self.is_write_blocked:
            exchange.receiver.pause_response()
        if self._body is None:
            return
        waiting = bytes(self._buffer)
        self._buffer.clear()
        if waiting:
            self._body_received(waiting)
        self._update_reading()

    def release_idle_memory(self) -> None:
        """Free memory that an idle stream does not need; there may be thousands of streams."""
        self._parser.clear()
        self._server_tls.release_buffers()

    def open_tunnel(self) -> None:
        """Treat all following bytes as the body, until either side ends.

        Bytes received before the switch were sent before the client could know of it. No Kubernetes
        client does that. Such bytes must not be interpreted in any way, so the exchange ends.
        """
        if self._exchange is None:
            return
        if self._buffer:
            self._exchange.disconnected()
            return
        self._body = UntilCloseReader()
        self._update_reading()

    def exchange_ended(self, ending: ConnectionReuse) -> None:
        """Continue with the next request, or close as `ending` requires."""
        exchange, self._exchange = self._exchange, None
        if self._is_closing:
            return
        if not self.is_authenticated:
            self._release_unauthenticated()
        elif self._reservation is not None:
            # A waiting request that was rejected. Its connection may continue, and the next request
            # must not be rejected for what this one held.
            self._reserve(0)
        if ending is ConnectionReuse.REUSABLE:
            self.deadline = self._clock() + self._idle_seconds
            self._searched = 0
            if self._is_parsing:
                return
            if self._buffer:
                self._read_heads()
            elif self.is_write_blocked or not self._is_reading:
                self._update_reading()
        else:
            self._close_after_response(ending, exchange)

    def close(self, *, sends_close_notify: bool = True) -> None:
        """Close after sending written data."""
        exchange = self._exchange
        if (
            exchange is not None
            and exchange.has_started
            and exchange.kind is not ExchangeKind.TUNNEL
        ):
            # For a body delimited by the connection, close_notify would be its regular end. Data in
            # a tunnel has its own end.
            sends_close_notify = False
        self._is_lingering = False
        super().close(sends_close_notify=sends_close_notify)
        self._drop_buffered()
        self._disconnect_exchange()

    def reject_pending(self) -> None:
        """Free the memory held here, send an error to the client, and close."""
        exchange = self._exchange
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
            self._buffer.clear()
            self._drop_queued()
        elif exchange is None and self._buffer:
            self._reject_unparsed(error)
        else:
            self.evict()

    def expire(self) -> None:
        """Close a late connection; abort it if it is already closing and its data is not read."""
        if self._is_closing and not self._is_lingering:
            self._abort()
        else:
            self.close()

    # --- internals ------------------------------------------------------------------------

    def _body_received(self, data: bytes) -> None:
        exchange, body = self._exchange, self._body
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
            self._buffer += rest
            exchange.is_body_read = True
        if payload:
            receiver.request_data(payload)
        if rest is not None:
            receiver.request_ended()

    def _update_reading(self) -> None:
        """Pause or resume the socket, so that it is read only while data can be processed."""
        exchange = self._exchange
        if exchange is None:
            reads = not self.is_write_blocked
        elif exchange.receiver is not None and self._body is not None:
            reads = not self._is_body_blocked
        else:
            reads = len(self._buffer) <= _MAX_WAITING_BYTES
        self._set_reading(reads=reads and self._queued_step is None)

    def _read_heads(self) -> None:
        """Serve the buffered requests in a loop, so that pipelining cannot deepen the stack."""
        self._is_parsing = True
        parsed, most = 0, _MAX_HEADS_PER_ITERATION if self.is_authenticated else 1
        try:
            while self._exchange is None and self._buffer and not self.is_write_blocked:
                if parsed == most or self._is_closing or not self._read_head():
                    break
                parsed += 1
        finally:
            self._is_parsing = False
        # Thousands of pipelined requests must not delay other connections, so the rest waits.
        if parsed < most or not self._buffer:
            self._update_reading()
        elif self.is_authenticated:
            self._set_reading(reads=False)
            asyncio.get_running_loop().call_soon(self._read_heads)
        else:
            self._queue_step()

    def _process_buffered(self) -> None:
        self._read_heads()

    def _read_head(self) -> bool:
        end = find_head_end(self._buffer, self._searched)
        if end < 0:
            self._await_rest_of_head()
            return False
        if self._reservation is not None:
            self._reserve(0)
        head = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        return self._process_head(head)

    def _await_rest_of_head(self) -> None:
        """Wait for the rest of a head, unless the received part is already unacceptable."""
        searched, self._searched = self._searched, len(self._buffer)
        try:
            self._check_incomplete_head(searched)
        except StatusError as error:
            self._reserve(0)
            self._reject_unparsed(error, incomplete_request(self._buffer))
            return
        if searched == 0:
            self.deadline = self._clock() + self._limits.head_seconds
        self._reserve(self._searched + min(self._searched, _TLS_BUFFER_BYTES))

    def _check_incomplete_head(self, searched: int) -> None:
        """Reject an incomplete head that no further byte can make acceptable.

        Reading and decrypting the rest of 1 MB would cost more than all other processing of it.
        """
        buffer, limits = self._buffer, self._limits
        if len(buffer) > MAX_HEAD_BYTES:
            raise HeadTooLarge
        if len(buffer) // _CHECK_INTERVAL_BYTES == searched // _CHECK_INTERVAL_BYTES:
            return
        if b"\n" in buffer:
            check_header_lines(buffer, most_bytes=limits.header_line_bytes)
        elif searched <= limits.target_bytes + _CHECK_INTERVAL_BYTES:
            # Once or twice: the query of an exec may fill the head, and has passed the first check.
            request = incomplete_request(buffer)
            check_target_length(request.method, request.target, max_bytes=limits.target_bytes)

    def _process_head(self, head: bytes) -> bool:
        """Start serving a request with a complete head; return whether it could be parsed."""
        limits, request = self._limits, UNPARSED_HEAD
        try:
            if len(head) > MAX_HEAD_BYTES or count_header_lines(head) > limits.header_lines:
                raise HeadTooLarge
            if len(head) > limits.header_line_bytes:
                check_header_lines(head, most_bytes=limits.header_line_bytes)
            request = self._parser.parse(head)
            check_target_length(request.method, request.target, max_bytes=limits.target_bytes)
        except StatusError as error:
            self._reject_unparsed(error, request)
            return False
        self._serve(request, len(head))
        return True

    def _serve(self, request: RequestHead, head_bytes: int) -> None:
        self.deadline = None
        framing = request.framing
        self._body = None if framing is NO_BODY else body_reader(framing)
        self._is_body_blocked = False
        exchange = self._exchange = ServerExchange(self, request, self._peer)
        self.has_received_request = True
        self.handler.handle(exchange)
        # A forwarded request has a receiver. A request with a response is no longer in progress.
        if (
            exchange.receiver is None
            and not exchange.is_authenticated
            and self._exchange is exchange
        ):
            self._waiting_head_bytes = head_bytes
            self._limiter.mark_active(self)
            self._reserve_waiting()

    def _reserve_waiting(self) -> None:
        """Reserve memory for waiting data: an unauthenticated head, bytes after it, responses.

        An authenticated request counts nothing here: the limit of requests in flight bounds it.
        """
        exchange, head_bytes = self._exchange, 0
        if exchange is not None:
            if exchange.receiver is not None or exchange.is_authenticated:
                self._reserve(0)
                return
            head_bytes = self._waiting_head_bytes
        elif self.is_authenticated:
            self._reserve(0)
            return
        behind = len(self._buffer) + self._queued_size()
        buffers = behind + min(head_bytes + behind, _TLS_BUFFER_BYTES)
        self._reserve(self._unsent_bytes() + head_bytes * _HEAD_COPIES + buffers)

    def _unsent_bytes(self) -> int:
        """Return the unsent bytes of an unauthenticated client that reads slowly."""
        transport = self._transport
        if transport is None or self.is_authenticated or not self.is_write_blocked:
            return 0
        return transport.get_write_buffer_size()

    def _release_unauthenticated(self) -> None:
        """Free the memory of a rejected request that an idle connection does not need."""
        self._waiting_head_bytes = 0
        self._parser.clear()
        self._server_tls.release_buffers()
        self._limiter.mark_active(self)
        if self.is_write_blocked:
            self._reserve_waiting()
        elif self._reservation is not None:
            self._reserve(0)

    def _reject_unparsed(self, error: StatusError, request: RequestHead = UNPARSED_HEAD) -> None:
        """Reject a head that cannot be parsed, and close: the start of the next one is unknown."""
        exchange = self._exchange = ServerExchange(self, request, self._peer)
        exchange.is_body_read = False
        self.handler.reject(exchange, error)

    def _drop_buffered(self) -> None:
        self._buffer.clear()
        self._drop_queued()
        unsent = self._unsent_bytes()
        if unsent or self._reservation is not None:
            # The last responses are held until the client has read them, or is aborted.
            self._reserve(unsent)

    def _close_after_response(
        self, ending: ConnectionReuse, exchange: ServerExchange | None
    ) -> None:
        """Close after the last response."""
        if ending is ConnectionReuse.ABORT:
            # No close_notify, for the same reason as in `close`.
            self.close(sends_close_notify=False)
        elif self._buffer or exchange is None or _may_send_more(exchange):
            self._linger()
        else:
            self.close()

    def _disconnect_exchange(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnected()

    def _linger(self) -> None:
        """Close the write side now; input is read and discarded for _LINGER_SECONDS."""
        self._is_lingering = True
        self._drop_buffered()
        self._body = None
        self.deadline = self._clock() + _LINGER_SECONDS
        self._close_write_side()


def _may_send_more(exchange: ServerExchange) -> bool:
    """Return whether the client may send more before it sees the end of the connection.

    A client that requested `close` closes by itself. Data it sends before that must not reset the
    connection, because the response would be lost with it (RFC 9112, 9.6).
    """
    return not exchange.is_body_read or not exchange.request.keep_alive
