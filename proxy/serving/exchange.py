"""One request and its answer on a client connection.

An exchange ends exactly once. After that it lets go of its connection, so a late callback of an
old request can never write into the answer of the next one.
"""

from collections.abc import Callable
from http import HTTPStatus

from proxy.core.errors import StatusError
from proxy.core.http.headers import (
    NO_LINES,
    Header,
    encoded_lines,
    header_lines,
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
    """The client side of one request, for the pipeline and the relay."""

    __slots__ = (
        "_body_bytes",
        "_comes_in_lines",
        "_framing",
        "_is_endless",
        "_last_byte",
        "_observer",
        "_on_end",
        "_on_gone",
        "_passed",
        "_status",
        "_transport",
        "body_is_read",
        "closes",
        "error",
        "is_authenticated",
        "is_long_running",
        "peer",
        "receiver",
        "request",
    )

    def __init__(self, transport: ExchangeTransport, request: RequestHead, peer: Peer) -> None:
        self._transport: ExchangeTransport | None = transport
        self._framing: BodyFraming | None = None
        # Who counts what is sent, if it is sent in the frames that it came in.
        self._passed: RawChunkReader | None = None
        self._status = 0
        self._body_bytes = 0
        self._is_endless = self._comes_in_lines = False
        # Told by whoever serves the request; one that is forwarded at once is told neither.
        self.is_authenticated = self.is_long_running = False
        # Why the request goes no further, if that was decided here while it waited.
        self.error: StatusError | None = None
        self._last_byte = _NEWLINE
        self._observer: ExchangeObserver | None = None
        self._on_gone: Callable[[], object] | None = None
        self._on_end: list[Callable[[ExchangeOutcome], None]] = []
        self.request = request
        self.peer = peer
        self.receiver: RequestBodyHandler | None = None
        framing = request.framing
        self.body_is_read = framing is NO_BODY or not framing.has_body
        # An upgrade ends its connection, granted or not: after a refused one nobody can be sure
        # what the client will send next.
        self.closes = not request.keep_alive or request.upgrade is not None

    @property
    def is_open(self) -> bool:
        """Tell whether the client is still there and waits for (more of) its answer."""
        return self._transport is not None

    @property
    def has_started(self) -> bool:
        """Tell whether the head of an answer was sent: no other answer can follow."""
        return self._status != 0

    @property
    def kind(self) -> ExchangeKind:
        """Tell how this exchange ends; an endless answer counts as one only when it has begun."""
        if self._status == SWITCHING_PROTOCOLS:
            return ExchangeKind.TUNNEL
        is_stream = self._is_endless and self._status == HTTPStatus.OK
        return ExchangeKind.STREAM if is_stream else ExchangeKind.ORDINARY

    @property
    def body_bytes(self) -> int:
        """Return how much of the answer's body was sent."""
        passed = self._passed
        return self._body_bytes if passed is None else passed.payload_bytes

    @property
    def is_between_lines(self) -> bool:
        """Tell whether the answer does not come in lines, or the last one is complete."""
        last_byte = self._last_byte if self._passed is None else self._passed.last_byte
        return not self._comes_in_lines or last_byte == _NEWLINE

    def accepts_raw_chunks(self, status: int) -> bool:
        """Tell whether the body of such an answer may be sent in the frames it came in.

        Not to who knows no chunks, and not if somebody wants to hear the payload as it passes.
        """
        observer = self._observer
        is_heard = observer is not None and observer.captures_body(status)
        return not is_heard and self.request.minor_version > 0

    def mark_stream(self) -> None:
        """Learn that the answer has no end of its own."""
        self._is_endless = True

    def mark_authenticated(self, *, is_anonymous: bool) -> None:
        """Learn that the caller is known, if only as anonymous."""
        self.is_authenticated = True
        if self._transport is not None:
            self._transport.caller_authenticated(is_anonymous=is_anonymous)

    def mark_long_running(self) -> None:
        """Learn that the request may last, and that its client may be slow to read."""
        self.is_long_running = True

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Call back if the client leaves before a receiver is attached."""
        self._on_gone = callback

    def on_complete(self, callback: Callable[[ExchangeOutcome], None]) -> None:
        """Call back once, when the exchange is over, however it ended; now, if it is over.

        Whoever asked earlier is still called, and first.
        """
        if self._transport is None:
            callback(ExchangeOutcome(self._status, self.body_bytes, is_complete=False))
            return
        self._on_end.append(callback)

    def observe(self, observer: ExchangeObserver | None) -> None:
        """Let somebody hear what passes, from before the body and the answer."""
        self._observer = observer

    def attach(self, receiver: RequestBodyHandler) -> None:
        """Let the receiver have the request's body, from its first byte."""
        transport, self._on_gone = self._transport, None
        if self.body_is_read and transport is not None and not transport.is_write_blocked:
            self.receiver = receiver  # There is nothing to be delivered: nearly always.
            return
        observer = self._observer
        self.receiver = receiver if observer is None else observer.tee(receiver)
        if transport is not None:
            transport.deliver_body()

    def send_continue(self) -> None:
        """Tell a client that waits for it to send its body."""
        if self._transport is not None and not self.has_started:
            self._transport.write(_CONTINUE)

    def pause_request(self) -> None:
        """Stop the client's body: the other side takes it too slowly."""
        if self._transport is not None:
            self._transport.pause_body()

    def resume_request(self) -> None:
        """Let the client's body flow again."""
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
        """Send the head of the answer. `headers` must not name the framing of a chunked body.

        What has already come of the body is `payload`, and goes out with the head.

        A body of unknown length is chunked whatever delimited it upstream, so that the client can
        tell its end from a cut; an HTTP/1.0 client knows only the end of the connection.
        """
        phrase = reason or _REASONS.get(status, b"")
        lines = b"HTTP/1.1 %d %b\r\n%b" % (status, phrase, encoded_lines(headers))
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
        """Do the same; `lines` are all of the head, but for those of this hop.

        They begin with the status line and end with their last line's end. If the body is `passed`
        on in its chunks, then it is sent as it is, and counted there.
        """
        transport = self._transport
        if transport is None:
            return
        if framing.kind in _UNKNOWN_LENGTH:
            framing = CHUNKED if self.request.minor_version else UNTIL_CLOSE
        self.closes = self.closes or framing is UNTIL_CLOSE or not self.body_is_read
        if framing is CHUNKED:
            lines += b"Transfer-Encoding: chunked\r\n"
        if self.closes:
            lines += b"Connection: close\r\n"
        self._status, self._framing, self._passed = status, framing, passed
        body = payload
        if passed is None and payload:
            self._body_bytes += len(payload)
            self._last_byte = payload[-1]
            body = framing.frame(payload)
        transport.write(b"%b\r\n%b" % (lines, body))
        if self._is_endless:
            self._comes_in_lines = is_newline_delimited(header_lines(lines))
            self._settle(transport)
        if self._observer is not None:
            # Who takes chunks in their frames has said that it hears nothing of them.
            heard = payload if passed is None else b""
            self._tell_start(self._observer, header_lines(lines), heard)

    def switch_protocols(self, headers: list[Header]) -> None:
        """Answer 101: from here on both directions are opaque bytes, until either side ends."""
        if self._transport is None:
            return
        self._status, self._framing = SWITCHING_PROTOCOLS, UNTIL_CLOSE
        self.body_is_read = False
        self._transport.write(encode_head(b"HTTP/1.1 101 Switching Protocols", headers))
        self._transport.open_tunnel()
        if self._observer is not None:
            self._tell_start(self._observer, headers, b"")

    def send(self, payload: bytes) -> None:
        """Send a piece of the answer's body at once."""
        framing = self._framing
        if self._passed is not None:
            if self._transport is not None:
                self._transport.write(payload)
        elif self._transport is not None and framing is not None and payload:
            self._body_bytes += len(payload)
            self._last_byte = payload[-1]
            # As `frame` does it; this is asked for every event of a watch.
            chunk = b"%x\r\n%b\r\n" % (len(payload), payload) if framing is CHUNKED else payload
            self._transport.write(chunk)
            if self._observer is not None:
                self._observer.response_data(payload)

    def end(self) -> None:
        """Finish the answer."""
        if self._transport is None or self._framing is None:
            return
        terminator = self._framing.terminator()
        if terminator:
            self._transport.write(terminator)
        self._finish(is_complete=True)

    def send_raw_response(self, outcome: ExchangeOutcome, lines: bytes, payload: bytes) -> None:
        """Send a whole answer; `outcome` is what becomes of the exchange by that.

        `lines` are all of its head, but for those of this hop. They begin with the status line, end
        with their last line's end, and tell the length.
        """
        transport = self._transport
        if transport is None:
            return
        self.closes = self.closes or not self.body_is_read
        if self.closes:
            lines += b"Connection: close\r\n"
        status = self._status = outcome.status
        self._body_bytes = outcome.body_bytes
        transport.write(b"%b\r\n%b" % (lines, payload))
        observer = self._observer
        if observer is not None and observer.wants_response(status):
            self._tell_start(observer, header_lines(lines), payload)
        self._transport = self.receiver = self._observer = None
        try:
            self._tell_end(outcome)
        finally:
            transport.exchange_ended(
                ConnectionReuse.CLOSE if self.closes else ConnectionReuse.REUSABLE
            )

    def send_response(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a whole answer of ours."""
        length = BodyFraming(BodyKind.LENGTH, len(body))
        payload = b"" if self.request.method == b"HEAD" else body
        headers = [*headers, (b"Content-Length", b"%d" % len(body))]
        self.start_response(status, headers, length, payload=payload)
        self.end()

    def abort(self) -> None:
        """Break off so that the client sees it: a cut answer must not look complete."""
        if self._transport is not None:
            self._finish(is_complete=False)

    def finish_early(self) -> bool:
        """End an endless answer well, if no chunk of it is half-sent; tell whether it was done.

        The connection ends with it, at once: a request that meets it meanwhile may come again.
        """
        self.closes = True
        return self.receiver is not None and self.receiver.finish_early()

    def fail(self, error: StatusError) -> None:
        """Answer with the refusal, or break off an answer that has begun."""
        if self.receiver is not None and not self.has_started:
            self.receiver.request_failed(error)
        else:
            self.disconnected()

    def reject_waiting(self, error: StatusError) -> bool:
        """End the work for a request that waits, whose owner answers with the refusal.

        Return False if there is nobody who could, and nothing was done.
        """
        on_gone = self._on_gone
        if self._transport is None or self.receiver is not None or on_gone is None:
            return False
        self.error = error
        self._on_gone = None
        # The client may still be sending what nobody will read.
        self.closes, self.body_is_read = True, False
        on_gone()
        return True

    def disconnected(self) -> None:
        """Hear from the connection that the client has left."""
        if self._transport is None:
            return
        receiver, on_gone = self.receiver, self._on_gone
        self._finish(is_complete=False)
        if receiver is not None:
            receiver.client_disconnected()
        elif on_gone is not None:
            on_gone()

    def _tell_start(
        self, observer: ExchangeObserver, headers: list[Header], payload: bytes
    ) -> None:
        if not observer.response_started(self._status, headers, payload):
            self._observer = None

    def _settle(self, transport: ExchangeTransport) -> None:
        """Keep no more than a stream needs on which nothing happens: there may be thousands.

        Nobody asks for its lines again, but perhaps an audit event about where it came from.
        """
        self.request.headers.clear_memo()
        self.request = self.request._replace(headers=NO_LINES, notes=None)
        transport.release_idle_memory()

    def _finish(self, *, is_complete: bool) -> None:
        transport, self._transport = self._transport, None
        self.receiver = self._observer = None
        try:
            self._tell_end(ExchangeOutcome(self._status, self.body_bytes, is_complete))
        finally:
            if transport is not None:
                transport.exchange_ended(self._ending(is_complete=is_complete))

    def _tell_end(self, outcome: ExchangeOutcome) -> None:
        """Call whoever asked, in turn; a fault of one keeps nobody else from hearing of it."""
        for number, callback in enumerate(self._on_end, start=1):
            try:
                callback(outcome)
            except Exception:
                self._on_end = self._on_end[number:]
                self._tell_end(outcome)
                raise

    def _ending(self, *, is_complete: bool) -> ConnectionReuse:
        if not is_complete:
            return ConnectionReuse.ABORT
        return (
            ConnectionReuse.CLOSE
            if self.closes or not self.body_is_read
            else ConnectionReuse.REUSABLE
        )
