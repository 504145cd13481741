"""One connection to the API server: one exchange at a time, reused only when both sides are done.

A connection is handed back for reuse only after the whole request was sent and the whole answer
was read, by their own framing. Anything else closes it, so that no byte of one user's answer can
reach another.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from proxy.upstream.credentials import Endpoint
from proxy.wire.body import NO_BODY, BodyError, BodyReader, body_reader
from proxy.wire.head import (
    MAX_HEAD_BYTES,
    MalformedResponse,
    RequestHead,
    ResponseHead,
    find_head_end,
    parse_response_head,
)
from proxy.wire.secure_connection import SecureConnection
from proxy.wire.tls import TLSStream

_FINISH_SECONDS = 10.0


class ResponseReceiver(Protocol):
    """Takes the answer, and hears of the upstream's pace and end."""

    def response_started(self, head: ResponseHead, payload: bytes = b"") -> None:
        """Take the final head, and what has already come of the body."""
        ...

    def response_data(self, payload: bytes) -> None:
        """Take the next piece of the body."""
        ...

    def response_ended(self) -> None:
        """Hear that the answer is complete."""
        ...

    def response_failed(self, *, nothing_came: bool) -> None:
        """Hear that the connection broke; `nothing_came` says not one byte of an answer did."""
        ...

    def pause_request(self) -> None:
        """Stop sending: the API server reads too slowly."""
        ...

    def resume_request(self) -> None:
        """Go on sending."""
        ...


class UpstreamConnection(SecureConnection):
    """A TLS connection to the API server as a state machine."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        on_idle: Callable[["UpstreamConnection"], None],
        on_lost: Callable[["UpstreamConnection"], None],
    ) -> None:
        super().__init__(TLSStream(endpoint.context, server_hostname=endpoint.server_name))
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._buffer = b""
        self._receiver: ResponseReceiver | None = None
        self._method = b""
        self._request_framing = NO_BODY
        self._response: BodyReader | None = None
        self._head: ResponseHead | None = None
        self._request_is_sent = True
        self._asked_to_switch = False
        self._has_answer_bytes = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_reused = False
        self.idle_since = 0.0

    # --- the event loop's side -------------------------------------------------------------

    def secured(self) -> None:
        """Let whoever opened this connection use it."""
        if not self.ready.done():
            self.ready.set_result(None)

    def plaintext_received(self, data: bytes) -> None:
        """Take a piece of an answer."""
        if self._receiver is None:
            # Bytes nobody asked for: whatever they are, they must not become somebody's answer.
            self._fail(ConnectionError("the API server sent bytes without a request"))
            return
        self._has_answer_bytes = True
        if self._head is not None:
            self._body_received(data)
            return
        searched = len(self._buffer)
        self._buffer += data
        try:
            self._read_head(searched)
        except MalformedResponse as error:
            self._fail(error)

    def goodbye_received(self) -> None:
        """The API server ended its side: that ends a body which only the connection delimits."""
        if self._response is not None and self._response.end_of_stream():
            self._finish(b"")
        self._fail(ConnectionError("the API server closed the connection"))

    def stream_cut(self, error: Exception) -> None:
        """The end without a goodbye is nobody's regular end."""
        self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the receiver, unless its answer was complete."""
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

    def send_head(self, head: bytes, *, request: RequestHead, receiver: ResponseReceiver) -> None:
        """Start an exchange; its body follows by `send_body` and ends with `end_body`."""
        self._receiver = receiver
        self._method = request.method
        self._request_framing = request.framing
        self._asked_to_switch = request.upgrade is not None
        self._request_is_sent = False
        self._has_answer_bytes = False
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
        self._read_on(reads=False)

    def resume_reading(self) -> None:
        """Take the answer again."""
        self._read_on(reads=True)

    def abandon(self) -> None:
        """Break off at once: nobody waits for this answer any more."""
        self._receiver = None
        self._abort()

    def finish(self) -> None:
        """Send what was written, then end a tunnel whose other side has ended.

        An API server that takes nothing any more is not waited for.
        """
        self._receiver = None
        self.close()
        asyncio.get_running_loop().call_later(_FINISH_SECONDS, self._abort)

    def close(self) -> None:
        """Say goodbye and close; what was written is still sent."""
        self._close(says_goodbye=True)

    # --- inside ----------------------------------------------------------------------------

    def _read_head(self, searched: int) -> None:
        while self._receiver is not None:
            end = find_head_end(self._buffer, searched)
            if end < 0:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    raise MalformedResponse("the head of the answer is too large")
                return
            head = parse_response_head(self._buffer[:end], request_method=self._method)
            rest, self._buffer, searched = self._buffer[end:], b"", 0
            if not head.is_interim:
                self._start_body(head, rest)
                return
            self._buffer = rest

    def _start_body(self, head: ResponseHead, rest: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        self._head = head
        self._response = body_reader(head.framing)
        if self._response is None or not rest:
            receiver.response_started(head)
            if self._response is None:
                self._finish(rest)
            return
        try:
            payload, after = self._response.feed(rest)
        except BodyError as error:
            receiver.response_started(head)
            self._fail(error)
            return
        # Together, because a record and a packet of its own for the head doubles the cost of a
        # small answer.
        receiver.response_started(head, payload)
        if after is not None and self._receiver is not None:
            self._finish(after)

    def _body_received(self, data: bytes) -> None:
        if self._response is None or self._receiver is None:
            return  # The receiver has abandoned us while it was told the head.
        try:
            payload, rest = self._response.feed(data)
        except BodyError as error:
            self._fail(error)
            return
        if payload:
            self._receiver.response_data(payload)
        if rest is not None:
            self._finish(rest)

    def _finish(self, rest: bytes) -> None:
        receiver, self._receiver, self._response = self._receiver, None, None
        head, self._head = self._head, None
        if head is not None and self._is_clean(head, rest):
            self.resume_reading()
            self._on_idle(self)
        else:
            self.close()
        if receiver is not None:
            receiver.response_ended()

    def _is_clean(self, head: ResponseHead, rest: bytes) -> bool:
        """Tell whether nothing of this exchange is left, on neither side, before the next one."""
        return (
            head.keep_alive
            and not self._asked_to_switch
            and not rest
            and self._request_is_sent
            and self.is_open
            and not self._tls.peer_closed
            and self._transport is not None
            and self._transport.get_write_buffer_size() == 0
        )

    def _fail(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # seen: perhaps nobody waits for it any more
        receiver, self._receiver = self._receiver, None
        self._abort()
        if receiver is not None:
            receiver.response_failed(nothing_came=not self._has_answer_bytes)
