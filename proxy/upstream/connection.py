"""A connection to the API server: one exchange at a time, reused after a complete exchange only.

A connection is released for reuse only after the whole request was sent and the whole response
was read, as their framing delimits them. Otherwise it is closed, so that no byte of one user's
response can reach another user.
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
_HOLDABLE_STATUSES = frozenset((401, 403))
_MAX_DRAIN_BYTES = 1024 * 1024
# kube-apiserver forwards every interim (1xx) head that a backend sends. The proxy discards them, so
# without a bound nothing would slow that backend down. No server needs more than a few.
MAX_INTERIM_HEADS = 100
# What the connection keeps of the head of a chunked response: it is reusable.
_CHUNKED_HEAD = ResponseHead(200, b"", (), CHUNKED, keep_alive=True)


class UpstreamConnection(TLSConnection):
    """A TLS connection to the API server as a state machine."""

    __slots__ = (
        "_abort_timer",
        "_audit_id",
        "_buffer",
        "_has_response_bytes",
        "_head",
        "_heads",
        "_interim_heads",
        "_method",
        "_on_idle",
        "_on_lost",
        "_receiver",
        "_request_framing",
        "_request_is_sent",
        "_requested_upgrade",
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
        self._requested_upgrade = False
        self._has_response_bytes = False
        self._interim_heads = 0
        self._abort_timer: asyncio.TimerHandle | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_reused = False
        self.idle_since = 0.0

    # --- called by the event loop ----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enable TCP keepalive, and start the handshake."""
        enable_tcp_keepalive(transport)
        super().connection_made(transport)

    def handshake_completed(self) -> None:
        """Mark the connection as ready for use."""
        if not self.ready.done():
            self.ready.set_result(None)

    def plaintext_received(self, data: bytes) -> None:
        """Read the next bytes of a response."""
        receiver, body = self._receiver, self._response
        if receiver is None:
            # Unsolicited bytes must never become the response to a later request.
            self._fail(ConnectionError("the API server sent bytes without a request"))
            return
        try:
            if body is None:
                self._has_response_bytes = True
                if self._buffer or not self._read_simple(data, receiver):
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
        """Handle the end of the API server's side; it ends a body without framing of its own."""
        if self._response is not None and self._response.end_of_stream():
            self._finish(b"")
        self._fail(ConnectionError("the API server closed the connection"))

    def connection_truncated(self, error: Exception) -> None:
        """Fail if the connection ends without close_notify; no response ends regularly this way."""
        self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Report a failure to the receiver, unless its response was complete."""
        if error is not None and self._receiver is not None:
            self._drain_socket()
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._transport = None
        self._fail(error or ConnectionError("the API server closed the connection"))
        self._on_lost(self)

    def pause_writing(self) -> None:
        """Pause the client while the API server reads too slowly."""
        if self._receiver is not None:
            self._receiver.pause_request()

    def resume_writing(self) -> None:
        """Resume the client when the API server has caught up."""
        if self._receiver is not None:
            self._receiver.resume_request()

    # --- called by the relay ---------------------------------------------------------------

    @property
    def is_between_chunks(self) -> bool:
        """Return whether a chunked response body is being read, at a boundary between chunks."""
        return self._response is not None and self._response.is_between_chunks

    def send_head(
        self, head: bytes, audit_id: bytes, *, request: RequestHead, receiver: ResponseHandler
    ) -> None:
        """Start an exchange; a body follows by `send_body` and ends with `end_body`.

        `audit_id` is in the request head, and is expected in the response head.
        """
        self._receiver = receiver
        self._audit_id = audit_id
        self._method = request.method
        self._request_framing = request.framing
        self._requested_upgrade = request.upgrade is not None
        framing = request.framing
        self._request_is_sent = framing is NO_BODY or not framing.has_body
        self._has_response_bytes = False
        self._interim_heads = 0
        self.write(head)

    def send_body(self, payload: bytes) -> None:
        """Send the next part of the request body."""
        self.write(self._request_framing.frame(payload))

    def end_body(self) -> None:
        """Finish the request."""
        terminator = self._request_framing.terminator()
        if terminator:
            self.write(terminator)
        self._request_is_sent = True

    def pause_reading(self) -> None:
        """Pause reading the response, because the client reads too slowly."""
        self._set_reading(reads=False)

    def resume_reading(self) -> None:
        """Resume reading the response."""
        self._set_reading(reads=True)

    def abandon(self) -> None:
        """Abort at once and drop the response, because no client waits for it."""
        self._receiver = None
        self._abort()

    def close_tunnel(self) -> None:
        """Flush what was written, then close a tunnel whose client side has ended."""
        self._receiver = None
        self._close_with_deadline()

    def abort_if_unreachable(self, after_seconds: float) -> None:
        """Abort if no sent data has been acknowledged for that long."""
        transport = self._transport
        if transport is not None and is_unreachable(transport, after_seconds=after_seconds):
            self._fail(ConnectionError("the API server has stopped acknowledging data"))

    def close(self) -> None:
        """Send close_notify and close, after flushing what was written."""
        self._close(sends_close_notify=True)

    # --- private ---------------------------------------------------------------------------

    def _drain_socket(self) -> None:
        """Read what the API server sent before it reset the connection.

        A server that rejects a large body early may close without reading the rest, which resets
        the connection. If the proxy then writes before it reads, the write fails and closes the
        transport. But the whole response is still in the socket's receive buffer.
        """
        if self._transport is None:
            return
        descriptor = self._transport.get_extra_info("socket").fileno()
        # The event loop closes the socket only after this callback. Reading it never blocks.
        with suppress(OSError):
            self.data_received(os.read(descriptor, _MAX_DRAIN_BYTES))

    def _read_simple(self, data: bytes, receiver: ResponseHandler) -> bool:
        """Read a simple response: one that is complete, or a chunked one; return whether it was.

        A status that may have to be held until the proxy's credential is checked is not simple.
        """
        simple = self._heads.parse(data, self._audit_id)
        if simple is None or simple.status in _HOLDABLE_STATUSES or self._method == b"HEAD":
            return False
        if simple.length is None:
            self._head = _CHUNKED_HEAD
            passed = RawChunkReader() if receiver.accepts_raw_chunks(simple.status) else None
            start = partial(receiver.raw_response_started, simple, passed=passed)
            self._begin_body(passed or ChunkedReader(), data[simple.end :], start)
            return True
        if simple.length != len(data) - simple.end or not self._is_request_done():
            return False
        self._receiver = None
        if not self._is_reading:
            self._set_reading(reads=True)
        self._on_idle(self)
        receiver.complete_response_received(simple, data[simple.end :])
        return True

    def _read_head(self, data: bytes) -> None:
        """Read the response heads received so far; a head received in one piece is never copied."""
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
            raise MalformedResponse("too many interim responses")

    def _check_size(self) -> None:
        if len(self._buffer) > MAX_HEAD_BYTES:
            raise MalformedResponse("the head of the response is too large")

    def _start_body(self, head: ResponseHead, rest: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        self._head = head
        if rest and len(rest) == head.framing.length:
            # The whole body arrived with its head, as it nearly always does for small responses.
            receiver.response_started(head, rest)
            if self._receiver is not None:
                self._finish(b"")
            return
        body = body_reader(head.framing)
        if body is None:
            receiver.response_started(head)
            self._finish(rest)
            return
        # The receiver has the header lines. Here they would be retained for a watch's lifetime.
        self._head = head._replace(headers=())
        self._begin_body(body, rest, partial(receiver.response_started, head))

    def _begin_body(self, body: BodyReader, rest: bytes, start: Callable[[bytes], None]) -> None:
        """Pass on the head, together with the part of the body received so far.

        A separate TLS record and packet for the head would double the cost of a small response.
        """
        self._response = body
        try:
            payload, after = body.feed(rest)
        except BodyError as error:
            start(b"")
            self._fail(error)
            return
        start(payload)
        if after is not None and self._receiver is not None:
            self._finish(after)

    def _finish(self, rest: bytes) -> None:
        receiver, self._receiver, self._response = self._receiver, None, None
        head, self._head = self._head, None
        if head is not None and self._is_clean(head, rest):
            self.resume_reading()
            self._on_idle(self)
        elif self._request_is_sent:
            self._close_with_deadline()
        else:
            # The API server responded before the request body ended, and may never read the rest.
            self._abort()
        if receiver is not None:
            receiver.response_ended()

    def _close_with_deadline(self) -> None:
        """Close once what was written is sent; abort after a deadline if it is not read."""
        self.close()
        loop = asyncio.get_running_loop()
        self._abort_timer = loop.call_later(_FINISH_SECONDS, self._abort)

    def _is_clean(self, head: ResponseHead, rest: bytes) -> bool:
        """Return whether both sides of the exchange are complete, so the next one may start."""
        return head.keep_alive and not rest and self._is_request_done()

    def _is_request_done(self) -> bool:
        """Return whether the whole request was sent, and neither side has closed the connection."""
        transport = self._transport
        return (
            not self._requested_upgrade
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
            self.ready.exception()  # mark as retrieved: no task may be waiting for it
        receiver, self._receiver = self._receiver, None
        self._abort()
        if receiver is not None:
            receiver.response_failed(nothing_came=not self._has_response_bytes)
