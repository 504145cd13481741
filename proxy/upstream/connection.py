"""One connection to the API server: one exchange at a time, reused only when both sides are done.

A connection is handed back for reuse only after the whole request was sent and the whole answer
was read, by their own framing. Anything else closes it, so that no byte of one user's answer can
reach another.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from proxy.upstream.endpoints import Endpoint
from proxy.upstream.response_handler import ResponseHandler
from proxy.wire.http1.body import (
    CHUNKED,
    NO_BODY,
    BodyError,
    BodyReader,
    ChunkedReader,
    body_reader,
)
from proxy.wire.http1.message import (
    HEAD_END,
    MAX_HEAD_BYTES,
    MalformedResponse,
    RequestHead,
    ResponseHead,
    find_head_end,
)
from proxy.wire.http1.raw_chunks import RawChunkReader
from proxy.wire.http1.response_parser import ResponseHeadCache, read_response_head
from proxy.wire.tcp import enable_tcp_keepalive, is_unreachable
from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_connection import TLSConnection

_FINISH_SECONDS = 10.0
_MAY_BE_HELD = frozenset((401, 403))
_LAST_WORDS_BYTES = 1024 * 1024
# kube-apiserver passes on every interim head that a backend sends, and ours go no further: without
# a bound nothing would slow that backend down. No server needs more than a few.
MAX_INTERIM_HEADS = 100
# What is left to know of the head of an answer in chunks.
_PASSED_ON = ResponseHead(200, b"", (), CHUNKED, keep_alive=True)


class UpstreamConnection(TLSConnection):
    """A TLS connection to the API server as a state machine."""

    __slots__ = (
        "_asked_to_switch",
        "_audit_id",
        "_buffer",
        "_cutting_off",
        "_has_answer_bytes",
        "_head",
        "_heads",
        "_interim_heads",
        "_method",
        "_on_idle",
        "_on_lost",
        "_receiver",
        "_request_framing",
        "_request_is_sent",
        "_response",
        "endpoint",
        "idle_since",
        "is_reused",
        "ready",
    )

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        heads: ResponseHeadCache,
        on_idle: Callable[["UpstreamConnection"], None],
        on_lost: Callable[["UpstreamConnection"], None],
    ) -> None:
        super().__init__(ClientTLS(endpoint.context, server_hostname=endpoint.server_name))
        self.endpoint = endpoint
        self._heads = heads
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._buffer = bytearray()
        self._receiver: ResponseHandler | None = None
        self._method = self._audit_id = b""
        self._request_framing = NO_BODY
        self._response: BodyReader | None = None
        self._head: ResponseHead | None = None
        self._request_is_sent = True
        self._asked_to_switch = False
        self._has_answer_bytes = False
        self._interim_heads = 0
        self._cutting_off: asyncio.TimerHandle | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_reused = False
        self.idle_since = 0.0

    # --- the event loop's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the kernel watch over the other end, and start the handshake."""
        enable_tcp_keepalive(transport)
        super().connection_made(transport)

    def handshake_completed(self) -> None:
        """Let whoever opened this connection use it."""
        if not self.ready.done():
            self.ready.set_result(None)

    def plaintext_received(self, data: bytes) -> None:
        """Take a piece of an answer."""
        receiver, body = self._receiver, self._response
        if receiver is None:
            # Bytes nobody asked for: whatever they are, they must not become somebody's answer.
            self._fail(ConnectionError("the API server sent bytes without a request"))
            return
        try:
            if body is None:
                self._has_answer_bytes = True
                if self._buffer or not self._read_plain(data, receiver):
                    self._read_head(data)
                return
            payload, rest = body.feed(data)
        except (MalformedResponse, BodyError) as error:
            self._fail(error)
            return
        if payload:
            receiver.response_data(payload)
        if rest is not None:
            self._finish(rest)

    def close_notify_received(self) -> None:
        """The API server ended its side: that ends a body which only the connection delimits."""
        if self._response is not None and self._response.end_of_stream():
            self._finish(b"")
        self._fail(ConnectionError("the API server closed the connection"))

    def connection_truncated(self, error: Exception) -> None:
        """The end without a goodbye is nobody's regular end."""
        self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the receiver, unless its answer was complete."""
        if error is not None and self._receiver is not None:
            self._drain_socket()
        if self._cutting_off is not None:
            self._cutting_off.cancel()
        self._transport = None
        self._fail(error or ConnectionError("the API server closed the connection"))
        self._on_lost(self)

    def pause_writing(self) -> None:
        """The API server reads too slowly: stop the client."""
        if self._receiver is not None:
            self._receiver.pause_request()

    def resume_writing(self) -> None:
        """The API server has caught up."""
        if self._receiver is not None:
            self._receiver.resume_request()

    # --- the relay's side ------------------------------------------------------------------

    @property
    def is_between_chunks(self) -> bool:
        """Tell whether a body of unknown length is coming, and no chunk of it is half-read."""
        return self._response is not None and self._response.is_between_chunks

    def send_head(
        self, head: bytes, audit_id: bytes, *, request: RequestHead, receiver: ResponseHandler
    ) -> None:
        """Start an exchange; a body follows by `send_body` and ends with `end_body`.

        `audit_id` is in the head, and will be in the answer.
        """
        self._receiver = receiver
        self._audit_id = audit_id
        self._method = request.method
        self._request_framing = request.framing
        self._asked_to_switch = request.upgrade is not None
        framing = request.framing
        self._request_is_sent = framing is NO_BODY or not framing.has_body
        self._has_answer_bytes = False
        self._interim_heads = 0
        self.write(head)

    def send_body(self, payload: bytes) -> None:
        """Send the next piece of the request's body."""
        self.write(self._request_framing.frame(payload))

    def end_body(self) -> None:
        """Finish the request."""
        terminator = self._request_framing.terminator()
        if terminator:
            self.write(terminator)
        self._request_is_sent = True

    def pause_reading(self) -> None:
        """Take no more of the answer: the client reads too slowly."""
        self._set_reading(reads=False)

    def resume_reading(self) -> None:
        """Take the answer again."""
        self._set_reading(reads=True)

    def abandon(self) -> None:
        """Break off at once: nobody waits for this answer any more."""
        self._receiver = None
        self._abort()

    def finish(self) -> None:
        """Send what was written, then end a tunnel whose other side has ended."""
        self._receiver = None
        self._close_in_time()

    def cut_off_if_unreachable(self, after_seconds: float) -> None:
        """Break off if nothing that was sent has been acknowledged for that long."""
        transport = self._transport
        if transport is not None and is_unreachable(transport, after_seconds=after_seconds):
            self._fail(ConnectionError("the API server acknowledges nothing any more"))

    def close(self) -> None:
        """Say goodbye and close; what was written is still sent."""
        self._close(says_goodbye=True)

    # --- inside ----------------------------------------------------------------------------

    def _drain_socket(self) -> None:
        """Read what the API server said before it broke off.

        Who refuses a large body early may close without reading the rest of it, and that resets
        the connection. If we write before we read, the write meets the reset and ends the
        transport, while the whole answer still waits in the socket.
        """
        if self._transport is None:
            return
        descriptor = self._transport.get_extra_info("socket").fileno()
        # The event loop closes the socket only after it has told us; reading it never blocks.
        with suppress(OSError):
            self.data_received(os.read(descriptor, _LAST_WORDS_BYTES))

    def _read_plain(self, data: bytes, receiver: ResponseHandler) -> bool:
        """Read an answer that is easily read: a whole small one, or one that comes in chunks.

        Who may have to be asked about us keeps an answer back, and that is not done here.
        """
        plain = self._heads.read(data, self._audit_id)
        if plain is None or plain.status in _MAY_BE_HELD or self._method == b"HEAD":
            return False
        if plain.length is None:
            self._head = _PASSED_ON
            passed = RawChunkReader() if receiver.takes_chunks(plain.status) else None
            tell = partial(receiver.raw_response_started, plain, passed=passed)
            self._begin_body(passed or ChunkedReader(), data[plain.end :], tell)
            return True
        if plain.length != len(data) - plain.end or not self._is_done():
            return False
        self._receiver = None
        if not self._is_reading:
            self._set_reading(reads=True)
        self._on_idle(self)
        receiver.complete_response_received(plain, data[plain.end :])
        return True

    def _read_head(self, data: bytes) -> None:
        """Read the heads in what has come; one that comes whole is never copied."""
        if self._buffer:
            searched = len(self._buffer)
            self._buffer += data
            if find_head_end(self._buffer, searched) < 0:
                self._check_size()
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        start = 0
        while self._receiver is not None:
            found = data.find(HEAD_END, start)
            if found < 0:
                self._buffer += data[start:]
                self._check_size()
                return
            end = found + len(HEAD_END)
            head = read_response_head(data[start:end], request_method=self._method)
            if not head.is_interim:
                self._start_body(head, data[end:])
                return
            self._count_interim_head()
            start = end

    def _count_interim_head(self) -> None:
        self._interim_heads += 1
        if self._interim_heads > MAX_INTERIM_HEADS:
            raise MalformedResponse("too many interim answers")

    def _check_size(self) -> None:
        if len(self._buffer) > MAX_HEAD_BYTES:
            raise MalformedResponse("the head of the answer is too large")

    def _start_body(self, head: ResponseHead, rest: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        self._head = head
        if rest and len(rest) == head.framing.length:
            # The whole body came with its head: nearly always, with small answers.
            receiver.response_started(head, rest)
            if self._receiver is not None:
                self._finish(b"")
            return
        body = body_reader(head.framing)
        if body is None:
            receiver.response_started(head)
            self._finish(rest)
            return
        # The lines are the receiver's to pass on: a watch would keep them for as long as it lasts.
        self._head = head._replace(headers=())
        self._begin_body(body, rest, partial(receiver.response_started, head))

    def _begin_body(self, body: BodyReader, rest: bytes, tell: Callable[[bytes], None]) -> None:
        """Tell the head, and with it what has come of the body.

        Together, because a record and a packet of its own for the head doubles the cost of a small
        answer.
        """
        self._response = body
        try:
            payload, after = body.feed(rest)
        except BodyError as error:
            tell(b"")
            self._fail(error)
            return
        tell(payload)
        if after is not None and self._receiver is not None:
            self._finish(after)

    def _finish(self, rest: bytes) -> None:
        receiver, self._receiver, self._response = self._receiver, None, None
        head, self._head = self._head, None
        if head is not None and self._is_clean(head, rest):
            self.resume_reading()
            self._on_idle(self)
        elif self._request_is_sent:
            self._close_in_time()
        else:
            # It has answered without the rest of the body, and may never read it.
            self._abort()
        if receiver is not None:
            receiver.response_ended()

    def _close_in_time(self) -> None:
        """Close once what was written is sent; who takes nothing any more is not waited for."""
        self.close()
        loop = asyncio.get_running_loop()
        self._cutting_off = loop.call_later(_FINISH_SECONDS, self._abort)

    def _is_clean(self, head: ResponseHead, rest: bytes) -> bool:
        """Tell whether nothing of this exchange is left, on neither side, before the next one."""
        return head.keep_alive and not rest and self._is_done()

    def _is_done(self) -> bool:
        """Tell whether the whole request was sent, and nobody has ended the connection."""
        transport = self._transport
        return (
            not self._asked_to_switch
            and self._request_is_sent
            and not self._is_closing
            and not self._tls.peer_closed
            and not self._unsent
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    def _fail(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # seen: perhaps nobody waits for it any more
        receiver, self._receiver = self._receiver, None
        self._abort()
        if receiver is not None:
            receiver.response_failed(nothing_came=not self._has_answer_bytes)
