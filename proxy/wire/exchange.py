"""What the rooms on both sides of a request agree on: one exchange with a client.

The serving room makes exchanges, the pipeline decides them, the upstream room answers them; none
of them needs to know another.
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
    """Where a connection comes from, and the certificates that were shown in its handshake.

    The peer's own certificate is the first, and it holds its key; nobody has verified any. What is
    found out about them may be left in `memory`, which ends with the connection.
    """

    address: str
    chain: tuple[bytes, ...] = ()
    verification_cache: dict[object, object] = field(
        default_factory=dict, repr=False, compare=False
    )


class ExchangeOutcome(NamedTuple):
    """How an exchange ended: the status sent (0 for none), body bytes, and whether all of it."""

    status: int
    body_bytes: int
    is_complete: bool


class RequestBodyHandler(Protocol):
    """Takes the request's body, and hears of the client's pace and end."""

    def request_data(self, payload: bytes) -> None:
        """Take the next piece of the body."""
        ...

    def request_ended(self) -> None:
        """Hear that the body is complete; not told of a request without one."""
        ...

    def request_failed(self, error: StatusError) -> None:
        """Hear why the request cannot go on: nobody may act on what came of it."""
        ...

    def finish_early(self) -> bool:
        """End the answer here, well, if no chunk of it is half-sent; tell whether it was done."""
        ...

    def client_disconnected(self) -> None:
        """Hear that the client has left; nothing can be answered any more."""
        ...

    def pause_response(self) -> None:
        """Stop sending: the client reads too slowly."""
        ...

    def resume_response(self) -> None:
        """Go on sending."""
        ...


class ExchangeObserver(Protocol):
    """Hears what passes, on its way to an audit event; it changes nothing and delays nothing."""

    def tee(self, receiver: RequestBodyHandler) -> RequestBodyHandler:
        """Return who takes the request's body: the receiver, or one that hears it as well."""
        ...

    def wants_response(self, status: int) -> bool:
        """Tell whether `answer_started` has to be told of an answer that comes as a whole."""
        ...

    def captures_body(self, status: int) -> bool:
        """Tell whether anything of the body of such an answer is to be heard."""
        ...

    def response_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Hear of the head and what came with it; tell whether the rest is to be heard, too."""
        ...

    def response_data(self, payload: bytes) -> None:
        """Hear the next piece of the answer."""
        ...


class ClientExchange(Protocol):
    """One request of a client, waiting for its answer."""

    @property
    def request(self) -> RequestHead:
        """The request as it came."""
        ...

    @property
    def peer(self) -> Peer:
        """Where it came from."""
        ...

    @property
    def is_open(self) -> bool:
        """Tell whether the client is still there and waits for (more of) its answer."""
        ...

    @property
    def has_started(self) -> bool:
        """Tell whether the head of an answer was sent: no other answer can follow."""
        ...

    @property
    def error(self) -> StatusError | None:
        """Why the request goes no further, if its connection has decided so while it waited."""
        ...

    def mark_authenticated(self, *, is_anonymous: bool) -> None:
        """Learn that the caller is known, if only as anonymous."""
        ...

    def mark_long_running(self) -> None:
        """Learn that the request may last, and that its client may be slow to read."""
        ...

    def mark_stream(self) -> None:
        """Learn that the answer has no end of its own: whoever must may end it for it."""
        ...

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Call back if the client leaves before a receiver is attached."""
        ...

    def on_complete(self, callback: Callable[[ExchangeOutcome], None]) -> None:
        """Call back once, when the exchange is over, however it ended; each that has asked."""
        ...

    def observe(self, observer: ExchangeObserver | None) -> None:
        """Let somebody hear what passes."""
        ...

    def attach(self, receiver: RequestBodyHandler) -> None:
        """Let the receiver have the request's body, from its first byte."""
        ...

    def send_continue(self) -> None:
        """Tell a client that waits for it to send its body."""
        ...

    def pause_request(self) -> None:
        """Stop the client's body."""
        ...

    def resume_request(self) -> None:
        """Let the client's body flow again."""
        ...

    def start_response(
        self,
        status: int,
        headers: list[Header],
        framing: BodyFraming,
        *,
        reason: bytes = b"",
        payload: bytes = b"",
    ) -> None:
        """Send the head of the answer, and the first piece of its body with it."""
        ...

    def accepts_raw_chunks(self, status: int) -> bool:
        """Tell whether the body of such an answer may be sent in the frames it came in."""
        ...

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

        If the body is `passed` on in its chunks, then it is sent as it is, and counted there.
        """
        ...

    def switch_protocols(self, headers: list[Header]) -> None:
        """Answer 101: from here on both directions are opaque bytes, until either side ends."""
        ...

    def send(self, payload: bytes) -> None:
        """Send a piece of the answer's body at once."""
        ...

    def end(self) -> None:
        """Finish the answer."""
        ...

    def send_raw_response(self, outcome: ExchangeOutcome, lines: bytes, payload: bytes) -> None:
        """Send a whole answer; `lines` are all of its head, but for those of this hop."""
        ...

    def send_response(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a whole answer of ours."""
        ...

    def abort(self) -> None:
        """Break off so that the client sees it."""
        ...
