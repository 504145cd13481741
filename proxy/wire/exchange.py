"""Interfaces of one client exchange: a request and its response.

`serving` creates exchanges, `pipeline` authorizes them and `upstream` responds to them. None of
these packages depends on another one's classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from proxy.core.errors import StatusError
from proxy.core.http.headers import Header
from proxy.wire.http1.body import BodyFraming
from proxy.wire.http1.message import RequestHead
from proxy.wire.http1.raw_chunks import RawChunkReader


@dataclass(frozen=True, slots=True)
class Peer:
    """Source address of a connection, and the certificates presented in its handshake.

    The peer's own certificate comes first, and the peer holds its private key. None of them is
    verified. Verification results may be stored in `verification_cache`, which ends with the
    connection.
    """

    address: str
    chain: tuple[bytes, ...] = ()
    verification_cache: dict[object, object] = field(
        default_factory=dict, repr=False, compare=False
    )


class ExchangeOutcome(NamedTuple):
    """How an exchange ended: status sent (0 for none), body bytes, and whether it is complete."""

    status: int
    body_bytes: int
    is_complete: bool


class RequestBodyHandler(Protocol):
    """Receives the request body, and events about the client's reading speed and disconnect."""

    def request_data(self, payload: bytes) -> None:
        """Receive the next part of the body."""
        ...

    def request_ended(self) -> None:
        """Handle the end of a complete body; not called for a request without a body."""
        ...

    def request_failed(self, error: StatusError) -> None:
        """Handle a request that cannot continue; the part received must not be acted on."""
        ...

    def finish_early(self) -> bool:
        """End the response properly unless a chunk is partly sent; return whether it was ended."""
        ...

    def client_disconnected(self) -> None:
        """Handle the client's disconnect; no response can be sent any more."""
        ...

    def pause_response(self) -> None:
        """Stop sending because the client reads too slowly."""
        ...

    def resume_response(self) -> None:
        """Continue sending."""
        ...


ANY_STATUS = 1000
"""A number that is larger than every status."""


class ExchangeObserver(Protocol):
    """Captures an exchange for its audit event; it neither changes nor delays anything."""

    def tee(self, receiver: RequestBodyHandler) -> RequestBodyHandler:
        """Return the handler of the request body: the receiver, or a wrapper that captures it."""
        ...

    @property
    def captured_from_status(self) -> int:
        """Return the lowest status of a response whose body is captured, even if only in part.

        It does not change any more when the request is forwarded. `ANY_STATUS`: none is captured.
        """
        ...

    def wants_response(self, status: int) -> bool:
        """Return whether `response_started` must be called for a response with this status."""
        ...

    def response_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Capture the head and first payload; return whether the rest is captured as well."""
        ...

    def response_data(self, payload: bytes) -> None:
        """Capture the next part of the response body."""
        ...


class ClientExchange(Protocol):
    """One request of a client that awaits its response."""

    @property
    def request(self) -> RequestHead:
        """The request as it was received."""
        ...

    @property
    def peer(self) -> Peer:
        """The peer that sent it."""
        ...

    @property
    def is_open(self) -> bool:
        """Return whether the client is connected and awaits its response, or the rest of it."""
        ...

    @property
    def has_started(self) -> bool:
        """Return whether a response head was sent; no other response can follow."""
        ...

    @property
    def error(self) -> StatusError | None:
        """The error, if the connection rejected the request while it was pending."""
        ...

    def mark_authenticated(self, *, is_anonymous: bool) -> None:
        """Record that the caller is authenticated, possibly as anonymous."""
        ...

    def mark_long_running(self) -> None:
        """Record that the request is long-running, so its client may read slowly."""
        ...

    def mark_stream(self) -> None:
        """Record that the response is a stream without an end of its own; a drain may end it."""
        ...

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Register a callback for a client that disconnects before a receiver is attached."""
        ...

    def on_complete(self, callback: Callable[[ExchangeOutcome], None]) -> None:
        """Register a callback that runs once when the exchange ends, however it ends."""
        ...

    def set_observer(self, observer: ExchangeObserver | None) -> None:
        """Set the observer that captures the exchange."""
        ...

    def attach(self, receiver: RequestBodyHandler) -> None:
        """Deliver the request body to the receiver, from its first byte."""
        ...

    def send_continue(self) -> None:
        """Send 100 Continue to a client that waits for it."""
        ...

    def pause_request(self) -> None:
        """Stop reading the request body."""
        ...

    def resume_request(self) -> None:
        """Continue reading the request body."""
        ...

    @property
    def raw_chunks_below(self) -> int:
        """Return the status below which a chunked body may be sent in its original frames."""
        ...

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

        `lines` are the head without hop-by-hop lines and without the framing of a chunked body.
        """
        ...

    def switch_protocols(self, lines: bytes) -> None:
        """Respond 101; from then on both directions are opaque bytes until either side ends."""
        ...

    def send(self, payload: bytes) -> None:
        """Send a part of the response body immediately."""
        ...

    def end(self) -> None:
        """Finish the response."""
        ...

    def send_response(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a complete response that the proxy generated."""
        ...

    def abort(self) -> None:
        """Abort the response so that the client can detect it."""
        ...
