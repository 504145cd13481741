"""One client connection: TLS, then request after request, one at a time.

Bytes that arrive before anybody can take them wait in one buffer. It is bounded: past the limit
the socket is not read. No request is looked at while the client has yet to take earlier answers.
"""

import asyncio
import math
from collections.abc import Callable

from OpenSSL import SSL

from proxy.core.errors import Refusal, TooManyRequests
from proxy.serving.carrier import Ending
from proxy.serving.exchange import Exchange
from proxy.serving.guest import Guest
from proxy.serving.handler import RequestHandler
from proxy.serving.limits import SharedLimits
from proxy.wire.body import NO_BODY, BodyError, BodyReader, UntilCloseReader, body_reader
from proxy.wire.head import (
    MAX_HEAD_BYTES,
    UNREAD_HEAD,
    HeadTooLarge,
    RequestHead,
    find_head_end,
)
from proxy.wire.request_heads import RequestHeads

_WAITING_BYTES = 64 * 1024
_LINGER_SECONDS = 2.0
_HEADS_A_TURN = 16


class ClientConnection(Guest):
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
        "handler",
        "has_asked",
        "is_write_blocked",
        "retires_at",
    )

    def __init__(
        self,
        *,
        context: SSL.Context,
        handler: RequestHandler,
        shared: SharedLimits,
        clock: Callable[[], float],
        on_lost: Callable[["ClientConnection"], None],
    ) -> None:
        super().__init__(context=context, shared=shared, clock=clock)
        self.handler = handler
        self._on_lost = on_lost
        self._buffer = bytearray()
        self._searched = 0
        self._reader = RequestHeads()
        self._exchange: Exchange | None = None
        self._body: BodyReader | None = None
        self._is_parsing = self._is_lingering = self.has_asked = False
        # Two sides that may be too slow: the client takes no answer, the upstream takes no body.
        self.is_write_blocked = self._is_body_blocked = False
        self.retires_at = math.inf

    @property
    def exchange(self) -> Exchange | None:
        """The request that is being served."""
        return self._exchange

    # --- the event loop's side -------------------------------------------------------------

    def plaintext_received(self, data: bytes) -> None:
        """Take a piece of a body, or bytes that have to wait."""
        exchange = self._exchange
        if exchange is None:
            if not self._buffer and not self.is_write_blocked:
                request = self._reader.known(data)
                if request is not None:
                    self._serve(request)
                    return
            self._buffer += data
            self._read_heads()
        elif exchange.receiver is not None and self._body is not None:
            self._body_received(data)
        else:
            self._buffer += data
            self._pace()

    def goodbye_received(self) -> None:
        """A client that ends its side has left: HTTP clients that wait keep theirs open."""
        self.close()

    def stream_cut(self, _error: Exception) -> None:
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
        if self._exchange is not None and self._exchange.receiver is not None:
            self._exchange.receiver.pause_response()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.is_write_blocked = False
        if self._exchange is None:
            self._read_heads()
        elif self._exchange.receiver is not None:
            self._exchange.receiver.resume_response()

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

    def settle(self) -> None:
        """Keep no more than a stream needs on which nothing happens: there may be thousands."""
        self._reader.forget()
        self._handshake.release_buffers()

    def open_tunnel(self) -> None:
        """Take everything that comes from now on as the body, until either side ends.

        What came before the switch was sent before the client could know of it: no client of
        Kubernetes does that, and whoever does must not have it read as anything at all.
        """
        if self._exchange is None:
            return
        if self._buffer:
            self._exchange.client_gone()
            return
        self._body = UntilCloseReader()
        self._pace()

    def exchange_ended(self, ending: Ending) -> None:
        """Go on to the next request, or close in the way that fits."""
        exchange, self._exchange = self._exchange, None
        if self._is_closing:
            return
        if ending is Ending.REUSABLE:
            self.deadline = self._clock() + self._limits.idle_seconds
            self._searched = 0
            if self._is_parsing:
                return
            if self._buffer:
                self._read_heads()
            elif self.is_write_blocked or not self._is_reading:
                self._pace()
        elif ending is Ending.BROKEN:
            # No goodbye: for a body that only the connection delimits it would be its regular end.
            self.close(says_goodbye=False)
        elif self._buffer or (exchange is not None and not exchange.body_is_read):
            self._linger()
        else:
            self.close()

    def close(self, *, says_goodbye: bool = True) -> None:
        """Close, as soon as what was written is sent."""
        self._is_lingering = False
        # Time for a slow client to take the last of its answer; then it is cut off.
        self.deadline = self._clock() + self._limits.idle_seconds
        self._close(says_goodbye=says_goodbye)
        self._drop_head()
        self._leave_exchange()

    def give_way(self) -> None:
        """Drop an unfinished head: all clients together hold too many."""
        # Nothing was read yet, so nothing happened: the client may safely come again.
        self._refuse_unread(TooManyRequests("too many unfinished requests", retry_after_seconds=1))

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
        self._read_on(reads=reads)

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
            self._read_on(reads=False)
            asyncio.get_running_loop().call_soon(self._read_heads)
        else:
            self._pace()

    def _read_head(self) -> bool:
        end = find_head_end(self._buffer, self._searched)
        if end < 0 and len(self._buffer) <= MAX_HEAD_BYTES:
            if self._searched == 0:
                self.deadline = self._clock() + self._limits.head_seconds
            self._searched = len(self._buffer)
            self._heads.hold(self, self._searched)
            return False
        if self._searched:
            self._heads.release(self)
        if end < 0:
            self._refuse_unread(HeadTooLarge())
            return False
        head = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        return self._take_head(head)

    def _take_head(self, head: bytes) -> bool:
        """Begin to serve one request, whose head is whole; tell whether it could be read."""
        try:
            if len(head) > MAX_HEAD_BYTES:
                raise HeadTooLarge
            request = self._reader.read(head)
        except Refusal as refusal:
            self._refuse_unread(refusal)
            return False
        self._serve(request)
        return True

    def _serve(self, request: RequestHead) -> None:
        self.deadline = None
        framing = request.framing
        self._body = None if framing is NO_BODY else body_reader(framing)
        self._is_body_blocked = False
        self._exchange = Exchange(self, request, self._peer)
        self.has_asked = True
        self.handler.begin(self._exchange)

    def _refuse_unread(self, refusal: Refusal) -> None:
        """Answer a head that cannot be read, and close: where the next one starts is unknown."""
        exchange = self._exchange = Exchange(self, UNREAD_HEAD, self._peer)
        exchange.body_is_read = False
        self.handler.refuse(exchange, refusal)

    def _drop_head(self) -> None:
        self._heads.release(self)
        self._buffer.clear()

    def _leave_exchange(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_gone()

    def _linger(self) -> None:
        """Close our side at once; the client's is read and forgotten for a moment."""
        self._is_lingering = True
        self._drop_head()
        self._body = None
        self.deadline = self._clock() + _LINGER_SECONDS
        self._close_our_side()
