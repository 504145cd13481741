"""One client connection: TLS, then request after request, one at a time.

Bytes that arrive before anybody can take them wait in one buffer. It is bounded: past the limit
the socket is not read. No request is looked at while the client has yet to take earlier answers.
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
    UNREAD_HEAD,
    HeadTooLarge,
    RequestHead,
    check_header_lines,
    count_header_lines,
    find_head_end,
    unfinished_request,
)
from proxy.wire.http1.request_parser import CachingRequestParser

_WAITING_BYTES = 64 * 1024
# A head that waits for its caller to be authenticated is held as its lines, as its token, as that
# token's text and as the body of its review: measured in docs/decisions/0015.
_HEAD_COPIES = 4
# What the TLS buffer of a connection has grown to by one large read, and keeps.
_TLS_BUFFER_BYTES = 96 * 1024
_LINGER_SECONDS = 2.0
_HEADS_A_TURN = 16
# An unfinished head is checked when it has grown past a multiple of this. Not with each read,
# because reads may be small.
_CHECKED_EVERY_BYTES = 64 * 1024


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
        "_reader",
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
        self._reader = CachingRequestParser()
        self._exchange: ServerExchange | None = None
        self._body: BodyReader | None = None
        self._is_parsing = self._is_lingering = self.has_received_request = False
        # Two sides that may be too slow: the client takes no answer, the upstream takes no body.
        self.is_write_blocked = self._is_body_blocked = False
        self.retires_at = math.inf

    @property
    def exchange(self) -> ServerExchange | None:
        """The request that is being served."""
        return self._exchange

    # --- the event loop's side -------------------------------------------------------------

    def plaintext_received(self, data: bytes) -> None:
        """Take a piece of a body, or bytes that have to wait."""
        exchange = self._exchange
        if exchange is None:
            if not self._buffer and not self.is_write_blocked:
                request = self._reader.parse_cached(data)
                if request is not None:
                    self._serve(request, len(data))
                    return
            self._buffer += data
            if self.is_write_blocked and not self.is_authenticated:
                self._hold_waiting()
            self._read_heads()
        elif exchange.receiver is not None and self._body is not None:
            self._body_received(data)
        else:
            self._buffer += data
            if exchange.receiver is None and not exchange.is_authenticated:
                self._hold_waiting()
            self._pace()

    def close_notify_received(self) -> None:
        """A client that ends its side has left: HTTP clients that wait keep theirs open."""
        self.close()

    def connection_truncated(self, _error: Exception) -> None:
        """So has one whose stream broke."""
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever works for this client that it is gone."""
        super().connection_lost(error)
        self._drop_head()
        self._leave_exchange()
        self._on_lost(self)

    def pause_writing(self) -> None:
        """The client reads too slowly: stop the source."""
        self.is_write_blocked = True
        exchange = self._exchange
        if exchange is not None and exchange.receiver is not None:
            exchange.receiver.pause_response()
        elif not self.is_authenticated:
            self._hold_waiting()
        if exchange is None:
            # Answers may leave after their turn, when nobody else looks at the pace.
            self._pace()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.is_write_blocked = False
        exchange = self._exchange
        if exchange is None:
            if self._holding is not None:
                self._hold(0)
            self._read_heads()
        elif exchange.receiver is not None:
            exchange.receiver.resume_response()
        elif self._holding is not None:
            self._hold_waiting()

    # --- the exchange's side ---------------------------------------------------------------

    def pause_body(self) -> None:
        """Take no more of the request's body."""
        self._is_body_blocked = True
        self._pace()

    def resume_body(self) -> None:
        """Take it again."""
        self._is_body_blocked = False
        self._pace()

    def deliver_body(self) -> None:
        """Give the receiver what waits in the buffer, and everything after it as it comes."""
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
        self._pace()

    def release_idle_memory(self) -> None:
        """Keep no more than a stream needs on which nothing happens: there may be thousands."""
        self._reader.clear()
        self._handshake.release_buffers()

    def open_tunnel(self) -> None:
        """Take everything that comes from now on as the body, until either side ends.

        What came before the switch was sent before the client could know of it: no client of
        Kubernetes does that, and whoever does must not have it read as anything at all.
        """
        if self._exchange is None:
            return
        if self._buffer:
            self._exchange.disconnected()
            return
        self._body = UntilCloseReader()
        self._pace()

    def exchange_ended(self, ending: ConnectionReuse) -> None:
        """Go on to the next request, or close in the way that fits."""
        exchange, self._exchange = self._exchange, None
        if self._is_closing:
            return
        if not self.is_authenticated:
            self._settle_unauthenticated()
        elif self._holding is not None:
            # A request that waited and was refused. Its connection may go on, and the next request
            # must not be cut for what this one held.
            self._hold(0)
        if ending is ConnectionReuse.REUSABLE:
            self.deadline = self._clock() + self._idle_seconds
            self._searched = 0
            if self._is_parsing:
                return
            if self._buffer:
                self._read_heads()
            elif self.is_write_blocked or not self._is_reading:
                self._pace()
        else:
            self._end(ending, exchange)

    def close(self, *, says_goodbye: bool = True) -> None:
        """Close, as soon as what was written is sent."""
        exchange = self._exchange
        if (
            exchange is not None
            and exchange.has_started
            and exchange.kind is not ExchangeKind.TUNNEL
        ):
            # For a body that only the connection delimits a goodbye would be its regular end. What
            # is in a tunnel has an end of its own.
            says_goodbye = False
        self._is_lingering = False
        super().close(says_goodbye=says_goodbye)
        self._drop_head()
        self._leave_exchange()

    def reject_pending(self) -> None:
        """Let go of what is held here, tell the client, and close."""
        exchange = self._exchange
        if self.is_authenticated and exchange is not None and exchange.receiver is not None:
            # Its place in flight bounds what it holds. What is counted was held by an earlier one.
            self._hold(0)
            return
        # Not counted from here on: the connection closes, and the next largest must stay.
        self._certificate_bytes = 0
        # Nothing was forwarded, so nothing happened: the client may safely come again.
        error = TooManyRequests(
            "too much is held for unauthenticated callers, please try again later",
            retry_after_seconds=1,
        )
        if not self._handshake.is_ready or self.is_write_blocked or self._is_closing:
            self.evict()
        elif exchange is not None and exchange.reject_waiting(error):
            self._buffer.clear()
        elif exchange is None and self._buffer:
            self._refuse_unread(error)
        else:
            self.evict()

    def expire(self) -> None:
        """Close a client that is late; one that does not even take our goodbye is cut off."""
        if self._is_closing and not self._is_lingering:
            self._abort()
        else:
            self.close()

    # --- inside ----------------------------------------------------------------------------

    def _body_received(self, data: bytes) -> None:
        exchange, body = self._exchange, self._body
        if exchange is None or exchange.receiver is None or body is None:
            return
        receiver = exchange.receiver
        try:
            payload, rest = body.feed(data)
        except BodyError as refusal:
            receiver.request_failed(refusal)
            return
        if rest is not None:
            self._body = None
            self._buffer += rest
            exchange.body_is_read = True
        if payload:
            receiver.request_data(payload)
        if rest is not None:
            receiver.request_ended()

    def _pace(self) -> None:
        """Read from the socket only while what comes has somewhere to go."""
        exchange = self._exchange
        if exchange is None:
            reads = not self.is_write_blocked
        elif exchange.receiver is not None and self._body is not None:
            reads = not self._is_body_blocked
        else:
            reads = len(self._buffer) <= _WAITING_BYTES
        self._set_reading(reads=reads)

    def _read_heads(self) -> None:
        """Serve the requests in the buffer. A loop, so that pipelining cannot deepen the stack."""
        self._is_parsing = True
        turns = 0
        try:
            while self._exchange is None and self._buffer and not self.is_write_blocked:
                if turns == _HEADS_A_TURN or self._is_closing or not self._read_head():
                    break
                turns += 1
        finally:
            self._is_parsing = False
        if turns == _HEADS_A_TURN:
            # Thousands sent at once must not keep everybody else waiting, so the rest has to.
            self._set_reading(reads=False)
            asyncio.get_running_loop().call_soon(self._read_heads)
        else:
            self._pace()

    def _read_head(self) -> bool:
        end = find_head_end(self._buffer, self._searched)
        if end < 0:
            self._hold_unfinished()
            return False
        if self._searched:
            self._hold(0)
        head = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        return self._take_head(head)

    def _hold_unfinished(self) -> None:
        """Wait for the rest of a head, unless what there is of it is too much already."""
        searched, self._searched = self._searched, len(self._buffer)
        try:
            self._check_unfinished(searched)
        except StatusError as refusal:
            self._hold(0)
            self._refuse_unread(refusal, unfinished_request(self._buffer))
            return
        if searched == 0:
            self.deadline = self._clock() + self._limits.head_seconds
        self._hold(self._searched + min(self._searched, _TLS_BUFFER_BYTES))

    def _check_unfinished(self, searched: int) -> None:
        """Refuse an unfinished head that no further byte can make acceptable.

        Reading and decrypting the rest of 1 MB would cost more than everything else about it.
        """
        buffer, limits = self._buffer, self._limits
        if len(buffer) > MAX_HEAD_BYTES:
            raise HeadTooLarge
        if len(buffer) // _CHECKED_EVERY_BYTES == searched // _CHECKED_EVERY_BYTES:
            return
        if b"\n" in buffer:
            check_header_lines(buffer, most_bytes=limits.header_line_bytes)
        elif searched <= limits.target_bytes + _CHECKED_EVERY_BYTES:
            # Once or twice: the query of an exec may fill the head, and passed the first check.
            request = unfinished_request(buffer)
            check_target_length(request.method, request.target, most_bytes=limits.target_bytes)

    def _take_head(self, head: bytes) -> bool:
        """Begin to serve one request, whose head is whole; tell whether it could be read."""
        limits, request = self._limits, UNREAD_HEAD
        try:
            if len(head) > MAX_HEAD_BYTES or count_header_lines(head) > limits.header_lines:
                raise HeadTooLarge
            if len(head) > limits.header_line_bytes:
                check_header_lines(head, most_bytes=limits.header_line_bytes)
            request = self._reader.parse(head)
            check_target_length(request.method, request.target, most_bytes=limits.target_bytes)
        except StatusError as refusal:
            self._refuse_unread(refusal, request)
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
        # A request that is forwarded has a receiver; one that is answered is not ours any more.
        if (
            exchange.receiver is None
            and not exchange.is_authenticated
            and self._exchange is exchange
        ):
            self._waiting_head_bytes = head_bytes
            self._door.renew(self)
            self._hold_waiting()

    def _hold_waiting(self) -> None:
        """Count what waits: a head for its caller to be known, what came behind it, and answers.

        A request whose caller is known counts nothing here: its place in flight bounds it.
        """
        exchange, head_bytes = self._exchange, 0
        if exchange is not None:
            if exchange.receiver is not None or exchange.is_authenticated:
                self._hold(0)
                return
            head_bytes = self._waiting_head_bytes
        behind = len(self._buffer)
        buffers = behind + min(head_bytes + behind, _TLS_BUFFER_BYTES)
        self._hold(self._unsent_bytes() + head_bytes * _HEAD_COPIES + buffers)

    def _unsent_bytes(self) -> int:
        """Return how much an unauthenticated client has yet to take, if it is slow to take it."""
        transport = self._transport
        if transport is None or self.is_authenticated or not self.is_write_blocked:
            return 0
        return transport.get_write_buffer_size()

    def _settle_unauthenticated(self) -> None:
        """Keep no more of a request that was refused than an idle connection needs."""
        self._waiting_head_bytes = 0
        self._reader.clear()
        self._handshake.release_buffers()
        self._door.renew(self)
        if self.is_write_blocked:
            self._hold_waiting()
        elif self._holding is not None:
            self._hold(0)

    def _refuse_unread(self, error: StatusError, request: RequestHead = UNREAD_HEAD) -> None:
        """Answer a head that cannot be read, and close: where the next one starts is unknown."""
        exchange = self._exchange = ServerExchange(self, request, self._peer)
        exchange.body_is_read = False
        self.handler.reject(exchange, error)

    def _drop_head(self) -> None:
        self._buffer.clear()
        unsent = self._unsent_bytes()
        if unsent or self._holding is not None:
            # Until the client has taken its last answers, or is cut off, they are held.
            self._hold(unsent)

    def _end(self, ending: ConnectionReuse, exchange: ServerExchange | None) -> None:
        """Close after the last response."""
        if ending is ConnectionReuse.ABORT:
            # No goodbye, for the same reason as in `close`.
            self.close(says_goodbye=False)
        elif self._buffer or exchange is None or _may_send_on(exchange):
            self._linger()
        else:
            self.close()

    def _leave_exchange(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnected()

    def _linger(self) -> None:
        """Close our side at once; the client's is read and forgotten for a moment."""
        self._is_lingering = True
        self._drop_head()
        self._body = None
        self.deadline = self._clock() + _LINGER_SECONDS
        self._close_our_side()


def _may_send_on(exchange: ServerExchange) -> bool:
    """Tell whether the client may be sending still, or may send more before it sees our end.

    A client that asked for the end closes by itself, but what it sends before that must not reset
    the connection, and its response with it (RFC 9112, 9.6).
    """
    return not exchange.body_is_read or not exchange.request.keep_alive
