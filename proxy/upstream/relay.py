"""The relay of one exchange: request and response bytes are passed on as they arrive.

Two responses are held until they are attributed to the client or to the proxy: a 401, and a small
403 that looks like a denial of the API server itself.
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
from proxy.core.forwarding import append_response_headers, build_response_headers
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
    """The collaborators of a relay."""

    auth_errors: AuthErrorResolver
    retry: Callable[["Relay"], bool]
    """Retries a request if that is safe, and returns whether it does."""
    deadlines: DeadlineQueue | None
    """The deadline for the response head; None for long-running requests."""


class Relay:
    """Relays one request to the API server, and its response to the client."""

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
        # The version of the credential that is in the head.
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

    # --- called by the client's side -------------------------------------------------------

    def request_data(self, payload: bytes) -> None:
        """Forward a part of the request body."""
        if self._upstream is not None:
            self._upstream.send_body(payload)

    def request_ended(self) -> None:
        """Finish the request."""
        if self._upstream is not None:
            self._upstream.end_body()

    def request_failed(self, error: StatusError) -> None:
        """Abort the request upstream, because no server may act on a truncated body."""
        self._held = None
        self._release(abandon=True)
        self.reject(error)

    def finish_early(self) -> bool:
        """End a streaming response between two chunks, so that the client can reconnect.

        Returns whether it was ended. The upstream connection is aborted.
        """
        if self._held is not None or self._upstream is None:
            return False
        if not self._upstream.is_between_chunks:
            return False
        self._release(abandon=True)
        self.client.end()
        return True

    def client_disconnected(self) -> None:
        """Cancel the upstream request; a tunnel is closed after what was sent is flushed."""
        self._held = None
        if self._is_tunnel and self._upstream is not None:
            self._upstream.close_tunnel()
        self._release(abandon=not self._is_tunnel)

    def pause_response(self) -> None:
        """Pause the response while the client reads too slowly."""
        self._client_is_slow = True
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume_response(self) -> None:
        """Resume the response when the client has caught up."""
        self._client_is_slow = False
        held = self._held
        if self._upstream is not None and (held is None or held.denial_type is not None):
            self._upstream.resume_reading()

    # --- called by the upstream connection -------------------------------------------------

    def response_started(self, head: ResponseHead, payload: bytes = b"") -> None:
        """Forward the response head, switch protocols if requested, or hold the response."""
        self._stop_deadline()
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
        """Forward a complete response; the connection is already back in the pool."""
        self._upstream = None
        if self._deadlines is not None:
            self._deadlines.stop(self)
        lines = append_response_headers(
            head.lines, audit_id=self.audit_id, warning=self.permit.warning
        )
        self.client.send_raw_response(head.outcome, lines, payload)

    def accepts_raw_chunks(self, status: int) -> bool:
        """Return whether the client accepts chunks with their framing."""
        return self.client.accepts_raw_chunks(status)

    def raw_response_started(
        self, head: SimpleResponseHead, payload: bytes, passed: RawChunkReader | None
    ) -> None:
        """Forward the head of a chunked response; its status needs no attribution."""
        self._stop_deadline()
        # No retry is possible any more, and a watch would retain the head for its lifetime.
        self.head = b""
        lines = append_response_headers(
            head.lines, audit_id=self.audit_id, warning=self.permit.warning
        )
        self.client.start_raw_response(head.status, lines, CHUNKED, payload, passed=passed)

    def _start(self, head: ResponseHead, payload: bytes) -> None:
        headers = build_response_headers(
            head.headers, audit_id=self.audit_id, warning=self.permit.warning
        )
        # No retry is possible any more, and a watch would retain the head for its lifetime.
        self.head = b""
        self.client.start_response(
            head.status, headers, head.framing, reason=head.reason, payload=payload
        )

    def _hold(self, head: ResponseHead, payload: bytes, upstream: UpstreamConnection) -> None:
        """Hold a 401 until it is attributed to the client or to the proxy.

        Reading is paused meanwhile, so at most the bytes of one socket read are held.
        """
        self._held = HeldResponse(head, [payload])
        upstream.pause_reading()
        self._dependencies.auth_errors.check(
            upstream.endpoint, self.version, self._resolve_held_401
        )

    def _resolve_held_401(self, status: CredentialStatus) -> None:
        held, self._held = self._held, None
        if held is None:
            return  # The client has disconnected, or the response has failed.
        if status is CredentialStatus.ACCEPTED:
            self._send_held(held)
            return
        self._release(abandon=True)
        if status is CredentialStatus.REJECTED:
            # Safe to retry: a 401 means that the request was not applied (RFC 9110, 15.5.2), and
            # the API server rejects the proxy's credential before it evaluates the request.
            self.reject(
                ProxyCredentialRejected(
                    "the API server does not accept the proxy's own credential",
                    retry_after_seconds=_RETRY_AFTER_SECONDS,
                )
            )
        else:
            # In doubt the 401 is not forwarded. If it concerns the proxy, the client would discard
            # a valid credential, while a client that receives 503 retries. There is no Retry-After,
            # because the 401 may as well be an application's.
            self.reject(
                ProxyCredentialRejected("cannot determine which credential the API server rejected")
            )

    def _send_held(self, held: HeldResponse) -> None:
        """Forward a held response unchanged, because it concerns the client."""
        self._start(held.head, held.body)
        if held.has_ended:
            self.client.end()
        elif self._upstream is not None and not self._client_is_slow:
            self._upstream.resume_reading()

    def _switch_protocols(self, head: ResponseHead, payload: bytes) -> None:
        """Open a tunnel, only for exactly the protocol that the client requested."""
        wanted, offered = self.client.request.upgrade, head.upgrade
        if wanted is None or offered is None or wanted.lower() != offered.lower():
            self._release(abandon=True)
            self.reject(BadGateway("the API server switched to a protocol that was not requested"))
            return
        self._is_tunnel = True
        headers = build_response_headers(
            head.headers,
            audit_id=self.audit_id,
            upgrade=offered,
            warning=self.permit.warning,
        )
        self.client.switch_protocols(headers)
        if payload:
            self.client.send(payload)

    def response_data(self, payload: bytes) -> None:
        """Forward a part of the response body at once, unless the response is held."""
        held = self._held
        if held is None:
            self.client.send(payload)
        elif not held.append(payload):
            self._held = None
            self._send_held(held)

    def response_ended(self) -> None:
        """Finish the response; the connection is already back in the pool."""
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
                held.denial_type, held.body, denied, self._resolve_held_403
            )

    def _resolve_held_403(self, error: StatusError | None) -> None:
        held, self._held = self._held, None
        if held is None:
            return  # The client has disconnected meanwhile.
        if error is None:
            self._send_held(held)
        else:
            self.reject(error)

    def response_failed(self, *, nothing_came: bool) -> None:
        """Abort the client's response, retry the request, or reject it with 502."""
        self._release(abandon=False)
        self._held = None
        if self.client.has_started:
            self.client.abort()
        elif not (nothing_came and self._was_reused and self._dependencies.retry(self)):
            # No Retry-After: the API server may have acted on the request.
            self.reject(BadGateway("the API server broke off the connection"))

    def pause_request(self) -> None:
        """Pause the client while the API server reads too slowly."""
        self.client.pause_request()

    def resume_request(self) -> None:
        """Resume the client when the API server has caught up."""
        self.client.resume_request()

    def deadline_passed(self) -> None:
        """Reject the request with 504 if no response head arrived in time."""
        if self._upstream is not None and not self.client.has_started:
            self._release(abandon=True)
            self.reject(GatewayTimeout("the API server did not answer in time"))

    def _release(self, *, abandon: bool) -> None:
        self._stop_deadline()
        upstream, self._upstream = self._upstream, None
        if abandon and upstream is not None:
            upstream.abandon()

    def _stop_deadline(self) -> None:
        if self._deadlines is not None:
            self._deadlines.stop(self)
