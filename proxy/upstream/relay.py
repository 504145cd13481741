"""One exchange, relayed both ways as it comes; nothing is repeated, and nothing is held back.

Two things are, until we know whether they are about the client or about us: a 401, and a small
403 that looks like the API server's own.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from proxy.concurrency.deadline_queue import DeadlineQueue
from proxy.core.errors import (
    BadGateway,
    GatewayTimeout,
    ProxyCredentialRejected,
    StatusError,
)
from proxy.core.forwarding import append_response_headers, response_headers
from proxy.core.impersonation.permit import Permit
from proxy.upstream.auth_errors import (
    AuthErrorResolver,
    CredentialStatus,
    DeniedRequest,
    HeldResponse,
    denial_type,
)
from proxy.upstream.connection import UpstreamConnection
from proxy.wire.exchange import ClientExchange
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, ResponseHead
from proxy.wire.http1.raw_chunks import RawChunkReader
from proxy.wire.http1.response_parser import SimpleResponseHead

_RETRY_AFTER_SECONDS = 1
_UNAUTHORIZED, _FORBIDDEN = HTTPStatus.UNAUTHORIZED.value, HTTPStatus.FORBIDDEN.value


class RelayDependencies(NamedTuple):
    """Whom a relay turns to."""

    auth_errors: AuthErrorResolver
    retry: Callable[["Relay"], bool]
    """Sends a request again if that is safe, and tells whether it does."""
    deadlines: DeadlineQueue | None
    """What ends the wait for the head of the answer, if anything does."""


class Relay:
    """Carries one request up and its answer down."""

    __slots__ = (
        "_client_is_slow",
        "_deadlines",
        "_dependencies",
        "_held",
        "_is_tunnel",
        "_upstream",
        "_was_reused",
        "audit_id",
        "client",
        "head",
        "permit",
        "reject",
        "version",
    )

    def __init__(
        self,
        client: ClientExchange,
        permit: Permit,
        audit_id: bytes,
        refuse: Callable[[StatusError], None],
        dependencies: "RelayDependencies",
    ) -> None:
        self.client = client
        self.permit = permit
        self.audit_id = audit_id
        self.reject = refuse
        self.head = b""
        # The version of our credential that is in the head.
        self.version = 0
        self._upstream: UpstreamConnection | None = None
        self._dependencies = dependencies
        self._was_reused = False
        self._deadlines = dependencies.deadlines
        self._held: HeldResponse | None = None
        self._client_is_slow = False
        self._is_tunnel = False

    def start(self, upstream: UpstreamConnection) -> None:
        """Send the head; the body follows as the client sends it."""
        self._upstream, self._was_reused = upstream, upstream.is_reused
        if self._deadlines is not None:
            self._deadlines.start(self)
        client = self.client
        upstream.send_head(self.head, self.audit_id, request=client.request, receiver=self)
        client.attach(self)

    # --- from the client -------------------------------------------------------------------

    def request_data(self, payload: bytes) -> None:
        """Send a piece of the body up."""
        if self._upstream is not None:
            self._upstream.send_body(payload)

    def request_ended(self) -> None:
        """Finish the request."""
        if self._upstream is not None:
            self._upstream.end_body()

    def request_failed(self, error: StatusError) -> None:
        """Cut the request off upstream: nobody may act on half a body."""
        self._held = None
        self._release(abandon=True)
        self.reject(error)

    def finish_early(self) -> bool:
        """End an endless answer between two chunks: upstream is left, the client may come again."""
        if self._held is not None or self._upstream is None:
            return False
        if not self._upstream.is_between_chunks:
            return False
        self._release(abandon=True)
        self.client.end()
        return True

    def client_disconnected(self) -> None:
        """Cancel upstream: nobody waits for the answer. A tunnel ends with what was sent."""
        self._held = None
        if self._is_tunnel and self._upstream is not None:
            self._upstream.finish()
        self._release(abandon=not self._is_tunnel)

    def pause_response(self) -> None:
        """The client reads too slowly."""
        self._client_is_slow = True
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume_response(self) -> None:
        """The client has caught up."""
        self._client_is_slow = False
        held = self._held
        if self._upstream is not None and (held is None or held.denial_type is not None):
            self._upstream.resume_reading()

    # --- from the API server ---------------------------------------------------------------

    def response_started(self, head: ResponseHead, payload: bytes = b"") -> None:
        """Send the head of the answer down, or switch protocols if that was asked for."""
        self._stop_clock()
        if head.status == SWITCHING_PROTOCOLS:
            self._switch_protocols(head, payload)
        elif head.status == _UNAUTHORIZED and self._upstream is not None:
            self._hold(head, payload, self._upstream)
        elif head.status == _FORBIDDEN and (media_type := denial_type(head)) is not None:
            self._held = HeldResponse(head, denial_type=media_type)
            self.response_data(payload)
        else:
            self._start(head, payload)

    def complete_response_received(self, head: SimpleResponseHead, payload: bytes) -> None:
        """Send a whole answer down; the connection has already gone back to the pool."""
        self._upstream = None
        if self._deadlines is not None:
            self._deadlines.stop(self)
        lines = append_response_headers(
            head.lines, audit_id=self.audit_id, warning=self.permit.warning
        )
        self.client.send_raw_response(head.outcome, lines, payload)

    def takes_chunks(self, status: int) -> bool:
        """Tell whether the client takes chunks in their frames."""
        return self.client.accepts_raw_chunks(status)

    def raw_response_started(
        self, head: SimpleResponseHead, payload: bytes, passed: RawChunkReader | None
    ) -> None:
        """Send the head of an answer in chunks down; nobody has to be asked about it."""
        self._stop_clock()
        # It is not sent again any more, and a watch would keep it for as long as it lasts.
        self.head = b""
        lines = append_response_headers(
            head.lines, audit_id=self.audit_id, warning=self.permit.warning
        )
        self.client.start_raw_response(head.status, lines, CHUNKED, payload, passed=passed)

    def _start(self, head: ResponseHead, payload: bytes) -> None:
        headers = response_headers(
            head.headers, audit_id=self.audit_id, warning=self.permit.warning
        )
        # It is not sent again any more, and a watch would keep it for as long as it lasts.
        self.head = b""
        self.client.start_response(
            head.status, headers, head.framing, reason=head.reason, payload=payload
        )

    def _hold(self, head: ResponseHead, payload: bytes, upstream: UpstreamConnection) -> None:
        """Keep a 401 back until we know whose it is.

        Nothing more is read meanwhile, so what is kept is what one read of the socket brought.
        """
        self._held = HeldResponse(head, [payload])
        upstream.pause_reading()
        self._dependencies.auth_errors.check(
            upstream.endpoint, self.version, self._resolve_held_401
        )

    def _resolve_held_401(self, status: CredentialStatus) -> None:
        held, self._held = self._held, None
        if held is None:
            return  # The client has left, or the answer has broken off.
        if status is CredentialStatus.ACCEPTED:
            self._send_held(held)
            return
        self._release(abandon=True)
        if status is CredentialStatus.REFUSED:
            # Safe to repeat: a 401 says that the request was not carried out (RFC 9110, 15.5.2),
            # and the API server has refused us before it looked at what is asked.
            self.reject(
                ProxyCredentialRejected(
                    "the API server does not accept the proxy's own credential",
                    retry_after_seconds=_RETRY_AFTER_SECONDS,
                )
            )
        else:
            # In doubt the 401 is not told: if it is about us, the client would throw a good
            # credential away, while a client that is told 503 comes again. But nothing invites it
            # to, because the answer may as well be an application's, and we do not know it.
            self.reject(
                ProxyCredentialRejected("the API server does not tell whose credential it refused")
            )

    def _send_held(self, held: HeldResponse) -> None:
        """Send an answer down as it came: it is the client's to have."""
        self._start(held.head, held.body)
        if held.has_ended:
            self.client.end()
        elif self._upstream is not None and not self._client_is_slow:
            self._upstream.resume_reading()

    def _switch_protocols(self, head: ResponseHead, payload: bytes) -> None:
        """Open the tunnel only to the very protocol that the client asked for."""
        wanted, offered = self.client.request.upgrade, head.upgrade
        if wanted is None or offered is None or wanted.lower() != offered.lower():
            self._release(abandon=True)
            self.reject(BadGateway("the API server switched to a protocol nobody asked for"))
            return
        self._is_tunnel = True
        headers = response_headers(
            head.headers,
            audit_id=self.audit_id,
            upgrade=offered,
            warning=self.permit.warning,
        )
        self.client.switch_protocols(headers)
        if payload:
            self.client.send(payload)

    def response_data(self, payload: bytes) -> None:
        """Send a piece of the answer down at once."""
        held = self._held
        if held is None:
            self.client.send(payload)
        elif not held.append(payload):
            self._held = None
            self._send_held(held)

    def response_ended(self) -> None:
        """Finish the answer; the connection has already gone back to the pool."""
        self._release(abandon=False)
        held = self._held
        if held is None:
            self.client.end()
            return
        held.has_ended = True
        if held.denial_type is not None:
            request, impersonated_user = self.client.request, self.permit.user
            denied = DeniedRequest(
                request.method, request.target, request.upgrade is not None, impersonated_user
            )
            self._dependencies.auth_errors.denials.resolve(
                held.denial_type, held.body, denied, self._denial_judged
            )

    def _denial_judged(self, error: StatusError | None) -> None:
        held, self._held = self._held, None
        if held is None:
            return  # The client has left meanwhile.
        if error is None:
            self._send_held(held)
        else:
            self.reject(error)

    def response_failed(self, *, nothing_came: bool) -> None:
        """Let the client see that its answer broke off, or never came."""
        self._release(abandon=False)
        self._held = None
        if self.client.has_started:
            self.client.abort()
        elif not (nothing_came and self._was_reused and self._dependencies.retry(self)):
            # No Retry-After: the API server may have acted on the request.
            self.reject(BadGateway("the API server broke off the connection"))

    def pause_request(self) -> None:
        """The API server reads too slowly."""
        self.client.pause_request()

    def resume_request(self) -> None:
        """The API server has caught up."""
        self.client.resume_request()

    def deadline_passed(self) -> None:
        """Give up waiting for the head of an answer."""
        if self._upstream is not None and not self.client.has_started:
            self._release(abandon=True)
            self.reject(GatewayTimeout("the API server did not answer in time"))

    def _release(self, *, abandon: bool) -> None:
        self._stop_clock()
        upstream, self._upstream = self._upstream, None
        if abandon and upstream is not None:
            upstream.abandon()

    def _stop_clock(self) -> None:
        if self._deadlines is not None:
            self._deadlines.stop(self)
