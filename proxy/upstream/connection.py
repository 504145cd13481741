"""A connection to the API server: one exchange at a time, reused after a complete exchange only.

A connection is released for reuse only after the whole request was sent and the whole response
was read, as their framing delimits them. Otherwise it is closed, so that no byte of one user's
response can reach another user.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from proxy.upstream.endpoints import Endpoint
from proxy.upstream.response_handler import ResponseHandler
from proxy.wire.http1.body import (
    CHUNKED,
    NO_BODY,
    BodyError,
    BodyFraming,
    BodyReader,
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
from proxy.wire.http1.response_parser import CachingResponseParser
from proxy.wire.tcp import enable_tcp_keepalive, is_unreachable
from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_connection import TLSConnection

_FINISH_SECONDS = 10.0
_HOLDABLE_STATUSES = frozenset((401, 403))
_MAX_DRAIN_BYTES = 1024 * 1024
# kube-apiserver forwards every interim (1xx) head that a backend sends. The proxy discards them, so
# without a bound nothing would slow that backend down. No server needs more than a few.
MAX_INTERIM_HEADS = 100
_HEAD_END_BYTES = len(HEAD_END)


class UpstreamConnection(TLSConnection):
    """A TLS connection to the API server as a state machine."""

    __slots__ = (
        "_abort_timer",
        "_audit_id",
        "_has_response_bytes",
        "_interim_heads",
        "_keeps_alive",
        "_method",
        "_on_idle",
        "_on_lost",
        "_parser",
        "_partial_head",
        "_raw_chunks_below",
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
        parser: CachingResponseParser,
        on_idle: Callable[["UpstreamConnection"], None],
        on_lost: Callable[["UpstreamConnection"], None],
    ) -> None:
        super().__init__(ClientTLS(endpoint.context, server_hostname=endpoint.server_name))
        self.endpoint = endpoint
        self._parser = parser
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._partial_head: bytearray | None = None
        self._receiver: ResponseHandler | None = None
        self._method = self._audit_id = b""
        self._request_framing = NO_BODY
        self._response: BodyReader | None = None
        self._keeps_alive = False
        self._raw_chunks_below = 0
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
                self._read_head(data)
                return
            payload, rest = body.feed(data)
        except (MalformedResponse, BodyError) as error:
            self._fail(error)
            return
        if payload:
            receiver.response_data(payload)
        if rest is not None:
            self._end_response(rest)

    def close_notify_received(self) -> None:
        """Handle the end of the API server's side; it ends a body without framing of its own."""
        if self._response is not None and self._response.end_of_stream():
            self._end_response(b"")
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
        self,
        head: bytes,
        audit_id: bytes,
        *,
        request: RequestHead,
        receiver: ResponseHandler,
        raw_chunks_below: int,
    ) -> None:
        """Start an exchange; a body follows by `send_body` and ends with `end_body`.

        `audit_id` is in the request head, and is expected in the response head. A chunked response
        keeps its frames if its status is below `raw_chunks_below`.
        """
        self._receiver = receiver
        self._raw_chunks_below = raw_chunks_below
        self._audit_id = audit_id
        self._method = request.method
        self._requested_upgrade = request.upgrade is not None
        self._request_framing = framing = request.framing
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

    def _read_head(self, data: bytes) -> None:
        """Read the response heads received so far; a head received in one piece is never copied."""
        partial = self._partial_head
        if partial is not None:
            searched = len(partial)
            partial += data
            if find_head_end(partial, searched) < 0:
                self._keep_partial_head(partial)
                return
            data, self._partial_head = bytes(partial), None
        start = 0
        while (found := data.find(HEAD_END, start)) >= 0:
            end = found + _HEAD_END_BYTES
            head = self._parser.parse(data[start:end], method=self._method, audit_id=self._audit_id)
            if not head.is_interim:
                self._start_response(head, data[end:])
                return
            self._count_interim_head()
            start = end
        self._keep_partial_head(bytearray(data[start:]))

    def _keep_partial_head(self, partial: bytearray) -> None:
        if len(partial) > MAX_HEAD_BYTES:
            raise MalformedResponse("the head of the response is too large")
        self._partial_head = partial

    def _count_interim_head(self) -> None:
        self._interim_heads += 1
        if self._interim_heads > MAX_INTERIM_HEADS:
            raise MalformedResponse("too many interim responses")

    def _start_response(self, head: ResponseHead, rest: bytes) -> None:
        receiver, framing = self._receiver, head.framing
        if receiver is None:
            return
        self._keeps_alive = head.keep_alive
        if rest and len(rest) == framing.length:
            # The whole body arrived with its head, as it nearly always does for small responses.
            self._end_exchange(b"")
            receiver.response_started(head, framing, rest, is_complete=True)
        elif framing is CHUNKED and self._may_keep_chunks(head.status):
            chunks = RawChunkReader()
            self._start_body(head, chunks, body=chunks, rest=rest)
        else:
            self._start_body(head, framing, body=body_reader(framing), rest=rest)

    def _start_body(
        self,
        head: ResponseHead,
        framing: BodyFraming | RawChunkReader,
        *,
        body: BodyReader | None,
        rest: bytes,
    ) -> None:
        """Pass on the head, together with the part of the body received so far.

        A separate TLS record and packet for the head would double the cost of a small response.
        """
        receiver = self._receiver
        if receiver is None:
            return
        try:
            payload, after = (b"", rest) if body is None else body.feed(rest)
        except BodyError as error:
            receiver.response_started(head, framing, b"", is_complete=False)
            self._fail(error)
            return
        if after is None:
            self._response = body
            receiver.response_started(head, framing, payload, is_complete=False)
        else:
            self._end_exchange(after)
            receiver.response_started(head, framing, payload, is_complete=True)

    def _may_keep_chunks(self, status: int) -> bool:
        """Return whether a chunked body is passed on with its frames; a held one is inspected."""
        return status < self._raw_chunks_below and status not in _HOLDABLE_STATUSES

    def _end_response(self, rest: bytes) -> None:
        receiver = self._receiver
        self._end_exchange(rest)
        if receiver is not None:
            receiver.response_ended()

    def _end_exchange(self, rest: bytes) -> None:
        """Make the connection idle if both sides of its exchange are complete; else close it."""
        self._receiver = self._response = None
        transport = self._transport
        if (
            self._keeps_alive
            and not rest
            and not self._requested_upgrade
            and self._request_is_sent
            and not self._is_closing
            and not self._tls.peer_closed
            and not self._unsent
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        ):
            if not self._is_reading:
                self._set_reading(reads=True)
            self._on_idle(self)
        elif self._request_is_sent:
            self._close_with_deadline()
        else:
            # The API server responded before the request body ended, and may never read the rest.
            self._abort()

    def _close_with_deadline(self) -> None:
        """Close once what was written is sent; abort after a deadline if it is not read."""
        self.close()
        loop = asyncio.get_running_loop()
        self._abort_timer = loop.call_later(_FINISH_SECONDS, self._abort)

    def _fail(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # mark as retrieved: no task may be waiting for it
        receiver, self._receiver = self._receiver, None
        self._abort()
        if receiver is not None:
            receiver.response_failed(nothing_came=not self._has_response_bytes)
