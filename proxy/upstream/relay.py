"""One exchange, relayed both ways as it comes; nothing is held back and nothing is repeated."""

from collections.abc import Callable

from proxy.core.errors import BadGateway, GatewayTimeout, Refusal
from proxy.core.forwarding_headers import returned_headers
from proxy.upstream.connection import UpstreamConnection
from proxy.wire.exchange import ClientExchange
from proxy.wire.head import SWITCHING_PROTOCOLS, ResponseHead


class Relay:
    """Carries one request up and its answer down."""

    __slots__ = (
        "_audit_id",
        "_client",
        "_deadline",
        "_is_tunnel",
        "_refuse",
        "_retry",
        "_upstream",
        "_warning",
    )

    def __init__(
        self,
        client: ClientExchange,
        upstream: UpstreamConnection,
        *,
        audit_id: bytes,
        warning: str | None,
        refuse: Callable[[Refusal], None],
        retry: Callable[[], object] | None,
    ) -> None:
        self._client = client
        self._upstream: UpstreamConnection | None = upstream
        self._audit_id = audit_id
        self._warning = warning
        self._refuse = refuse
        self._retry = retry
        self._deadline: Callable[[], None] | None = None
        self._is_tunnel = False

    def run(self, head: bytes) -> None:
        """Send the head; the body follows as the client sends it."""
        if self._upstream is not None:
            self._upstream.send_head(head, request=self._client.request, receiver=self)
            self._client.attach(self)

    def cancel_deadline_by(self, cancel: Callable[[], None]) -> None:
        """Remember how to stop the clock that waits for the answer's head."""
        self._deadline = cancel

    # --- from the client -------------------------------------------------------------------

    def request_data(self, payload: bytes) -> None:
        """Send a piece of the body up."""
        if self._upstream is not None:
            self._upstream.send_body(payload)

    def request_ended(self) -> None:
        """Finish the request."""
        if self._upstream is not None:
            self._upstream.end_body()

    def request_failed(self, refusal: Refusal) -> None:
        """Cut the request off upstream: nobody may act on half a body."""
        self._release(abandon=True)
        self._refuse(refusal)

    def client_gone(self) -> None:
        """Cancel upstream: nobody waits for the answer. A tunnel ends with what was sent."""
        if self._is_tunnel and self._upstream is not None:
            self._upstream.finish()
        self._release(abandon=not self._is_tunnel)

    def pause_response(self) -> None:
        """The client reads too slowly."""
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume_response(self) -> None:
        """The client has caught up."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    # --- from the API server ---------------------------------------------------------------

    def response_started(self, head: ResponseHead, payload: bytes = b"") -> None:
        """Send the head of the answer down, or switch protocols if that was asked for."""
        self._stop_clock()
        if head.status == SWITCHING_PROTOCOLS:
            self._switch_protocols(head, payload)
            return
        headers = returned_headers(head.headers, audit_id=self._audit_id, warning=self._warning)
        self._client.start(head.status, headers, head.framing, reason=head.reason, payload=payload)

    def _switch_protocols(self, head: ResponseHead, payload: bytes) -> None:
        """Open the tunnel only to the very protocol that the client asked for."""
        wanted, offered = self._client.request.upgrade, head.upgrade
        if wanted is None or offered is None or wanted.lower() != offered.lower():
            self._release(abandon=True)
            self._refuse(BadGateway("the API server switched to a protocol nobody asked for"))
            return
        self._is_tunnel = True
        headers = returned_headers(
            head.headers, audit_id=self._audit_id, upgrade=offered, warning=self._warning
        )
        self._client.switch_protocols(headers)
        if payload:
            self._client.send(payload)

    def response_data(self, payload: bytes) -> None:
        """Send a piece of the answer down at once."""
        self._client.send(payload)

    def response_ended(self) -> None:
        """Finish the answer; the connection has already gone back to the pool."""
        self._release(abandon=False)
        self._client.end()

    def response_failed(self, *, nothing_came: bool) -> None:
        """Let the client see that its answer broke off, or never came."""
        self._release(abandon=False)
        if self._client.has_started:
            self._client.abort()
        elif nothing_came and self._retry is not None:
            self._retry()
        else:
            # No Retry-After: the API server may have acted on the request.
            self._refuse(BadGateway("the API server broke off the connection"))

    def pause_request(self) -> None:
        """The API server reads too slowly."""
        self._client.pause_request()

    def resume_request(self) -> None:
        """The API server has caught up."""
        self._client.resume_request()

    def deadline_passed(self) -> None:
        """Give up waiting for the head of an answer."""
        if self._upstream is not None and not self._client.has_started:
            self._release(abandon=True)
            self._refuse(GatewayTimeout("the API server did not answer in time"))

    def _release(self, *, abandon: bool) -> None:
        self._stop_clock()
        upstream, self._upstream = self._upstream, None
        if abandon and upstream is not None:
            upstream.abandon()

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline()
            self._deadline = None
