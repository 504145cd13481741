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
from proxy.wire.exchange import ExchangeObserver, ExchangeOutcome, Peer, RequestBodyHandler
from proxy.wire.http1.body import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    BodyFraming,
    BodyKind,
)
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, RequestHead, encode_head
from proxy.wire.http1.raw_chunks import RawChunkReader

_UNKNOWN_LENGTH = frozenset((BodyKind.CHUNKED, BodyKind.UNTIL_CLOSE))
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NEWLINE = 0x0A
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class ServerExchange:
    """The client side of one request, used by the pipeline and the relay."""

    __slots__ = (
        "_body_bytes",
        "_framing",
        "_is_newline_delimited",
        "_is_stream",
        "_last_byte",
        "_observer",
        "_on_complete",
        "_on_disconnect",
        "_raw_chunks",
        "_status",
        "_transport",
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
        self._framing: BodyFraming | None = None
        # Counts the sent payload, if the body is sent in its original chunks.
        self._raw_chunks: RawChunkReader | None = None
        self._status = 0
        self._body_bytes = 0
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
    def body_bytes(self) -> int:
        """Return the sent bytes of the response body."""
        passed = self._raw_chunks
        return self._body_bytes if passed is None else passed.payload_bytes

    @property
    def is_between_lines(self) -> bool:
        """Return whether the last line is complete, or the response is not newline-delimited."""
        last_byte = self._last_byte if self._raw_chunks is None else self._raw_chunks.last_byte
        return not self._is_newline_delimited or last_byte == _NEWLINE

    def accepts_raw_chunks(self, status: int) -> bool:
        """Return whether the body of such a response may be sent in its original chunks.

        Not to an HTTP/1.0 client, and not if an observer captures the payload.
        """
        observer = self._observer
        is_captured = observer is not None and observer.captures_body(status)
        return not is_captured and self.request.minor_version > 0

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

    def observe(self, observer: ExchangeObserver | None) -> None:
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
        headers: list[Header],
        framing: BodyFraming,
        *,
        reason: bytes = b"",
        payload: bytes = b"",
    ) -> None:
        """Send the response head. `headers` must not contain the framing of a chunked body.

        `payload` is the part of the body received so far, and is sent with the head.

        A body of unknown length is chunked, however the upstream delimited it, so that the client
        can distinguish its end from a truncation. For an HTTP/1.0 client it ends with the
        connection.
        """
        phrase = reason or _REASONS.get(status, b"")
        lines = b"HTTP/1.1 %d %b\r\n%b" % (status, phrase, encode_header_lines(headers))
        self.start_raw_response(status, lines, framing, payload)

    def start_raw_response(
        self,
        status: int,
        lines: bytes,
        framing: BodyFraming,
        payload: bytes,
        *,
        passed: RawChunkReader | None = None,
    ) -> None:
        """Send a response head of raw `lines`: the whole head without hop-by-hop lines.

        They begin with the status line and end with a line end. If `passed` is given, the body is
        sent in its original chunks, which `passed` counts.
        """
        transport = self._transport
        if transport is None:
            return
        if framing.kind in _UNKNOWN_LENGTH:
            framing = CHUNKED if self.request.minor_version else UNTIL_CLOSE
        self.closes_connection = (
            self.closes_connection or framing is UNTIL_CLOSE or not self.is_body_read
        )
        if framing is CHUNKED:
            lines += b"Transfer-Encoding: chunked\r\n"
        if self.closes_connection:
            lines += b"Connection: close\r\n"
        self._status, self._framing, self._raw_chunks = status, framing, passed
        body = payload
        if passed is None and payload:
            self._body_bytes += len(payload)
            self._last_byte = payload[-1]
            body = framing.frame(payload)
        transport.write(b"%b\r\n%b" % (lines, body))
        if self._is_stream:
            self._is_newline_delimited = is_newline_delimited(parse_header_lines(lines))
            self._release_idle_memory(transport)
        if self._observer is not None:
            # Original chunks are used only if the observer does not capture the body.
            captured = payload if passed is None else b""
            self._notify_started(self._observer, parse_header_lines(lines), captured)

    def switch_protocols(self, headers: list[Header]) -> None:
        """Respond 101; from then on both directions are opaque bytes until either side ends."""
        if self._transport is None:
            return
        self._status, self._framing = SWITCHING_PROTOCOLS, UNTIL_CLOSE
        self.is_body_read = False
        self._transport.write(encode_head(b"HTTP/1.1 101 Switching Protocols", headers))
        self._transport.open_tunnel()
        if self._observer is not None:
            self._notify_started(self._observer, headers, b"")

    def send(self, payload: bytes) -> None:
        """Send a part of the response body immediately."""
        framing = self._framing
        if self._raw_chunks is not None:
            if self._transport is not None:
                self._transport.write(payload)
        elif self._transport is not None and framing is not None and payload:
            self._body_bytes += len(payload)
            self._last_byte = payload[-1]
            # Same as `frame`, inlined because this runs for every event of a watch.
            chunk = b"%x\r\n%b\r\n" % (len(payload), payload) if framing is CHUNKED else payload
            self._transport.write(chunk)
            if self._observer is not None:
                self._observer.response_data(payload)

    def end(self) -> None:
        """Finish the response."""
        if self._transport is None or self._framing is None:
            return
        terminator = self._framing.terminator()
        if terminator:
            self._transport.write(terminator)
        self._finish(is_complete=True)

    def send_raw_response(self, outcome: ExchangeOutcome, lines: bytes, payload: bytes) -> None:
        """Send a complete response; `outcome` is the outcome of the exchange.

        `lines` are its head without hop-by-hop lines. They begin with the status line, end with a
        line end, and include the length.
        """
        transport = self._transport
        if transport is None:
            return
        self.closes_connection = self.closes_connection or not self.is_body_read
        if self.closes_connection:
            lines += b"Connection: close\r\n"
        status = self._status = outcome.status
        self._body_bytes = outcome.body_bytes
        transport.write(b"%b\r\n%b" % (lines, payload))
        observer = self._observer
        if observer is not None and observer.wants_response(status):
            self._notify_started(observer, parse_header_lines(lines), payload)
        self._transport = self.receiver = self._observer = None
        try:
            self._notify_complete(outcome)
        finally:
            transport.exchange_ended(
                ConnectionReuse.CLOSE if self.closes_connection else ConnectionReuse.REUSABLE
            )

    def send_response(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a complete response that the proxy generated."""
        length = BodyFraming(BodyKind.LENGTH, len(body))
        payload = b"" if self.request.method == b"HEAD" else body
        headers = [*headers, (b"Content-Length", b"%d" % len(body))]
        self.start_response(status, headers, length, payload=payload)
        self.end()

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

    def _notify_started(
        self, observer: ExchangeObserver, headers: list[Header], payload: bytes
    ) -> None:
        if not observer.response_started(self._status, headers, payload):
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
        try:
            self._notify_complete(ExchangeOutcome(self._status, self.body_bytes, is_complete))
        finally:
            if transport is not None:
                transport.exchange_ended(self._connection_reuse(is_complete=is_complete))

    def _notify_complete(self, outcome: ExchangeOutcome) -> None:
        """Run the completion callbacks in order; a failing one does not prevent the others."""
        for number, callback in enumerate(self._on_complete, start=1):
            try:
                callback(outcome)
            except Exception:
                self._on_complete = self._on_complete[number:]
                self._notify_complete(outcome)
                raise

    def _connection_reuse(self, *, is_complete: bool) -> ConnectionReuse:
        if not is_complete:
            return ConnectionReuse.ABORT
        return (
            ConnectionReuse.CLOSE
            if self.closes_connection or not self.is_body_read
            else ConnectionReuse.REUSABLE
        )
