"""One request and its response on a client connection.

An exchange ends exactly once. It then drops the reference to its connection. A late callback of an
old request can therefore never write into the response of the next one.
"""

from collections.abc import Callable
from http import HTTPStatus

from proxy.core.errors import StatusError
from proxy.core.http.headers import (
    NO_HEADERS,
    Header,
    encode_header_lines,
    parse_header_lines,
)
from proxy.core.requestinfo.request_info import is_newline_delimited
from proxy.serving.exchange_transport import ConnectionReuse, ExchangeKind, ExchangeTransport
from proxy.wire.exchange import (
    ANY_STATUS,
    ExchangeObserver,
    ExchangeOutcome,
    Peer,
    RequestBodyHandler,
)
from proxy.wire.http1.body import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    BodyFraming,
    BodyKind,
)
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, RequestHead, status_line
from proxy.wire.http1.raw_chunks import RawChunkReader

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NEWLINE = 0x0A
# Reading a member of an enumeration is slow, and these are read for every response.
_BY_LENGTH = BodyKind.LENGTH
_ABORT, _CLOSE, _REUSABLE = ConnectionReuse.ABORT, ConnectionReuse.CLOSE, ConnectionReuse.REUSABLE


class ServerExchange:
    """The client side of one request, used by the pipeline and the relay."""

    __slots__ = (
        "_framing",
        "_is_newline_delimited",
        "_is_stream",
        "_last_byte",
        "_observer",
        "_on_complete",
        "_on_disconnect",
        "_status",
        "_transport",
        "body_bytes",
        "closes_connection",
        "error",
        "is_authenticated",
        "is_body_read",
        "is_long_running",
        "peer",
        "receiver",
        "request",
    )

    def __init__(self, transport: ExchangeTransport, request: RequestHead, peer: Peer) -> None:
        self._transport: ExchangeTransport | None = transport
        self._framing: BodyFraming | RawChunkReader | None = None
        self._status = 0
        # The sent bytes of the response body.
        self.body_bytes = 0
        self._is_stream = self._is_newline_delimited = False
        # Set while the request is served. A request that is forwarded immediately sets neither.
        self.is_authenticated = self.is_long_running = False
        # The error, if the request was rejected while it was pending.
        self.error: StatusError | None = None
        self._last_byte = _NEWLINE
        self._observer: ExchangeObserver | None = None
        self._on_disconnect: Callable[[], object] | None = None
        self._on_complete: list[Callable[[ExchangeOutcome], None]] = []
        self.request = request
        self.peer = peer
        self.receiver: RequestBodyHandler | None = None
        framing = request.framing
        self.is_body_read = framing is NO_BODY or not framing.has_body
        # An upgrade ends its connection, granted or not: after a rejected one it is unknown what
        # the client sends next.
        self.closes_connection = not request.keep_alive or request.upgrade is not None

    @property
    def is_open(self) -> bool:
        """Return whether the client is connected and awaits its response, or the rest of it."""
        return self._transport is not None

    @property
    def has_started(self) -> bool:
        """Return whether a response head was sent; no other response can follow."""
        return self._status != 0

    @property
    def kind(self) -> ExchangeKind:
        """How this exchange can end; it is a stream only once its response has started."""
        if self._status == SWITCHING_PROTOCOLS:
            return ExchangeKind.TUNNEL
        is_stream = self._is_stream and self._status == HTTPStatus.OK
        return ExchangeKind.STREAM if is_stream else ExchangeKind.ORDINARY

    @property
    def is_between_lines(self) -> bool:
        """Return whether the last line is complete, or the response is not newline-delimited."""
        return not self._is_newline_delimited or self._last_byte == _NEWLINE

    @property
    def client_may_send_more(self) -> bool:
        """Return whether the client may send more before it sees the end of the connection.

        A client that requested `close` closes by itself. Data it sends before that must not reset
        the connection, because the response would be lost with it (RFC 9112, 9.6).
        """
        return not self.is_body_read or not self.request.keep_alive

    @property
    def raw_chunks_below(self) -> int:
        """Return the status below which a chunked body may be sent in its original frames.

        An HTTP/1.0 client cannot read them, and an observer that captures the body needs it alone.
        """
        if self.request.minor_version == 0:
            return 0
        observer = self._observer
        return ANY_STATUS if observer is None else observer.captured_from_status

    def mark_stream(self) -> None:
        """Record that the response is a stream without an end of its own."""
        self._is_stream = True

    def mark_authenticated(self, *, is_anonymous: bool) -> None:
        """Record that the caller is authenticated, possibly as anonymous."""
        self.is_authenticated = True
        if self._transport is not None:
            self._transport.caller_authenticated(is_anonymous=is_anonymous)

    def mark_long_running(self) -> None:
        """Record that the request is long-running, so its client may read slowly."""
        self.is_long_running = True

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Register a callback for a client that disconnects before a receiver is attached."""
        self._on_disconnect = callback

    def on_complete(self, callback: Callable[[ExchangeOutcome], None]) -> None:
        """Register a callback that runs once when the exchange ends; now, if it has ended.

        Callbacks registered earlier still run, and run first.
        """
        if self._transport is None:
            callback(ExchangeOutcome(self._status, self.body_bytes, is_complete=False))
            return
        self._on_complete.append(callback)

    def set_observer(self, observer: ExchangeObserver | None) -> None:
        """Set the observer that captures the exchange; call before body and response."""
        self._observer = observer

    def attach(self, receiver: RequestBodyHandler) -> None:
        """Deliver the request body to the receiver, from its first byte."""
        transport, self._on_disconnect = self._transport, None
        if self.is_body_read and transport is not None and not transport.is_write_blocked:
            self.receiver = receiver  # Nearly always: there is nothing to deliver.
            return
        observer = self._observer
        self.receiver = receiver if observer is None else observer.tee(receiver)
        if transport is not None:
            transport.deliver_body()

    def send_continue(self) -> None:
        """Send 100 Continue to a client that waits for it."""
        if self._transport is not None and not self.has_started:
            self._transport.write(_CONTINUE)

    def pause_request(self) -> None:
        """Stop reading the request body: the upstream reads it too slowly."""
        if self._transport is not None:
            self._transport.pause_body()

    def resume_request(self) -> None:
        """Continue reading the request body."""
        if self._transport is not None:
            self._transport.resume_body()

    def start_response(
        self,
        status: int,
        lines: bytes,
        framing: BodyFraming | RawChunkReader,
        payload: bytes = b"",
        *,
        is_complete: bool = False,
    ) -> None:
        """Send the response head with the first part of the body, or with all of it.

        `lines` begin with the status line and end with a line end. They contain a Content-Length,
        but neither hop-by-hop headers nor the framing of a chunked body.

        A body of unknown length is chunked, however the upstream delimited it, so that the client
        can distinguish its end from a truncation. For an HTTP/1.0 client it ends with the
        connection.
        """
        transport = self._transport
        if transport is None:
            return
        if framing.kind is not _BY_LENGTH or self.closes_connection or not self.is_body_read:
            framing, lines = self._delimit(framing, lines)
        self._status, self._framing = status, framing
        body = self._frame(payload, framing) if payload else b""
        if is_complete and framing.kind is not _BY_LENGTH:
            body += framing.terminator()
        transport.write(b"%b\r\n%b" % (lines, body))
        if self._observer is not None:
            self._notify_started(self._observer, lines, payload)
        if is_complete:
            self._finish(is_complete=True)
        elif self._is_stream:
            self._is_newline_delimited = is_newline_delimited(parse_header_lines(lines))
            self._release_idle_memory(transport)

    def _delimit(
        self, framing: BodyFraming | RawChunkReader, lines: bytes
    ) -> tuple[BodyFraming | RawChunkReader, bytes]:
        """Return the framing that this client can read, and the head with the lines about it."""
        if framing is CHUNKED or framing is UNTIL_CLOSE:
            framing = CHUNKED if self.request.minor_version else UNTIL_CLOSE
        if framing is CHUNKED or isinstance(framing, RawChunkReader):
            lines += b"Transfer-Encoding: chunked\r\n"
        if self.closes_connection or framing is UNTIL_CLOSE or not self.is_body_read:
            self.closes_connection = True
            lines += b"Connection: close\r\n"
        return framing, lines

    def switch_protocols(self, lines: bytes) -> None:
        """Respond 101; from then on both directions are opaque bytes until either side ends."""
        transport = self._transport
        if transport is None:
            return
        self._status, self._framing = SWITCHING_PROTOCOLS, UNTIL_CLOSE
        self.is_body_read = False
        transport.write(lines + b"\r\n")
        transport.open_tunnel()
        if self._observer is not None:
            self._notify_started(self._observer, lines, b"")

    def send(self, payload: bytes) -> None:
        """Send a part of the response body immediately."""
        transport, framing = self._transport, self._framing
        if transport is None or framing is None or not payload:
            return
        transport.write(self._frame(payload, framing))
        if self._observer is not None:
            self._observer.response_data(payload)

    def _frame(self, payload: bytes, framing: BodyFraming | RawChunkReader) -> bytes:
        """Count a part of the body and return it framed; original chunks are both already."""
        if isinstance(framing, RawChunkReader):
            self.body_bytes, self._last_byte = framing.payload_bytes, framing.last_byte
            return payload
        self.body_bytes += len(payload)
        self._last_byte = payload[-1]
        return b"%x\r\n%b\r\n" % (len(payload), payload) if framing is CHUNKED else payload

    def end(self) -> None:
        """Finish the response."""
        if self._transport is None or self._framing is None:
            return
        terminator = self._framing.terminator()
        if terminator:
            self._transport.write(terminator)
        self._finish(is_complete=True)

    def send_response(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a complete response that the proxy generated."""
        framing = BodyFraming(BodyKind.LENGTH, len(body))
        payload = b"" if self.request.method == b"HEAD" else body
        headers = [*headers, (b"Content-Length", b"%d" % len(body))]
        lines = status_line(status) + encode_header_lines(headers)
        self.start_response(status, lines, framing, payload, is_complete=True)

    def abort(self) -> None:
        """Abort visibly: a truncated response must not look complete."""
        if self._transport is not None:
            self._finish(is_complete=False)

    def finish_early(self) -> bool:
        """End a stream properly unless a chunk is partly sent; return whether it was ended.

        The connection closes immediately with it. A client can safely repeat a request that it sent
        meanwhile.
        """
        self.closes_connection = True
        return self.receiver is not None and self.receiver.finish_early()

    def fail(self, error: StatusError) -> None:
        """Respond with the error, or abort a response that has started."""
        if self.receiver is not None and not self.has_started:
            self.receiver.request_failed(error)
        else:
            self.disconnected()

    def reject_pending(self, error: StatusError) -> bool:
        """Cancel the processing of a pending request; its handler responds with the error.

        Return False, without effect, if no handler can respond.
        """
        on_disconnect_callback = self._on_disconnect
        if self._transport is None or self.receiver is not None or on_disconnect_callback is None:
            return False
        self.error = error
        self._on_disconnect = None
        # The client may still be sending a body that is never read.
        self.closes_connection, self.is_body_read = True, False
        on_disconnect_callback()
        return True

    def disconnected(self) -> None:
        """End the exchange when the client has disconnected; the connection calls this."""
        if self._transport is None:
            return
        receiver, on_disconnect_callback = self.receiver, self._on_disconnect
        self._finish(is_complete=False)
        if receiver is not None:
            receiver.client_disconnected()
        elif on_disconnect_callback is not None:
            on_disconnect_callback()

    def _notify_started(self, observer: ExchangeObserver, lines: bytes, payload: bytes) -> None:
        """Notify the observer of the response head; drop it if it captures nothing more."""
        status = self._status
        if status != SWITCHING_PROTOCOLS and not observer.wants_response(status):
            self._observer = None
            return
        # Original chunks are used only if the observer does not capture the body.
        captured = b"" if isinstance(self._framing, RawChunkReader) else payload
        if not observer.response_started(status, parse_header_lines(lines), captured):
            self._observer = None

    def _release_idle_memory(self, transport: ExchangeTransport) -> None:
        """Free memory that an idle stream does not need; there may be thousands of streams.

        Its header lines are not used again. An audit event may still use the rest of the request.
        """
        self.request.headers.clear_derived()
        self.request = self.request._replace(headers=NO_HEADERS, cache=None)
        transport.release_idle_memory()

    def _finish(self, *, is_complete: bool) -> None:
        transport, self._transport = self._transport, None
        self.receiver = self._observer = None
        ending = _REUSABLE
        if not is_complete:
            ending = _ABORT
        elif self.closes_connection or not self.is_body_read:
            ending = _CLOSE
        try:
            self._notify_complete(ExchangeOutcome(self._status, self.body_bytes, is_complete))
        finally:
            if transport is not None:
                transport.exchange_ended(ending)

    def _notify_complete(self, outcome: ExchangeOutcome) -> None:
        """Run the completion callbacks in order; a failing one does not prevent the others."""
        for number, callback in enumerate(self._on_complete, start=1):
            try:
                callback(outcome)
            except Exception:
                self._on_complete = self._on_complete[number:]
                self._notify_complete(outcome)
                raise
