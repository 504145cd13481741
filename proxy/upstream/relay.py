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
from proxy.core.forwarding import build_response_lines
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
from proxy.wire.http1.body import BodyFraming
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, ResponseHead
from proxy.wire.http1.raw_chunks import RawChunkReader

_RETRY_AFTER_SECONDS = 1
_UNAUTHORIZED, _FORBIDDEN = HTTPStatus.UNAUTHORIZED.value, HTTPStatus.FORBIDDEN.value
_INSPECTED_STATUSES = frozenset((SWITCHING_PROTOCOLS, _UNAUTHORIZED, _FORBIDDEN))


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
        reject: Callable[[StatusError], None],
        dependencies: "RelayDependencies",
    ) -> None:
        self.client = client
        self.permit = permit
        self.audit_id = audit_id
        self.reject = reject
        self.head = b""
        # The version of the credential that is in the head.
        self.version = 0
        self._upstream: UpstreamConnection | None = None
        self._dependencies = dependencies
        self._was_reused = False
        self._held: HeldResponse | None = None
        self._client_is_slow = False
        self._is_tunnel = False

    def start(self, upstream: UpstreamConnection) -> None:
        """Send the head; the body follows as the client sends it."""
        self._upstream, self._was_reused = upstream, upstream.is_reused
        deadlines, client = self._dependencies.deadlines, self.client
        if deadlines is not None:
            deadlines.start(self)
        upstream.send_head(
            self.head,
            self.audit_id,
            request=client.request,
            receiver=self,
            raw_chunks_below=client.raw_chunks_below,
        )
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

    def response_started(
        self,
        head: ResponseHead,
        framing: BodyFraming | RawChunkReader,
        payload: bytes,
        *,
        is_complete: bool,
    ) -> None:
        """Forward the response head, switch protocols if requested, or hold the response."""
        upstream, dependencies = self._upstream, self._dependencies
        if dependencies.deadlines is not None:
            dependencies.deadlines.stop(self)
        if is_complete:
            self._upstream = None
        status = head.status
        if status not in _INSPECTED_STATUSES:
            self._start(head, framing, payload, is_complete=is_complete)
        elif status == SWITCHING_PROTOCOLS:
            self._switch_protocols(head, payload)
        elif status == _UNAUTHORIZED and upstream is not None:
            self._hold_401(HeldResponse(head, [payload], has_ended=is_complete), upstream)
        elif status == _FORBIDDEN and (media_type := denial_type(head)) is not None:
            held = HeldResponse(head, has_ended=is_complete, denial_type=media_type)
            self._hold_403(held, payload)
        else:
            self._start(head, framing, payload, is_complete=is_complete)

    def _start(
        self,
        head: ResponseHead,
        framing: BodyFraming | RawChunkReader,
        payload: bytes,
        *,
        is_complete: bool,
    ) -> None:
        lines = build_response_lines(
            head.lines, audit_id=self.audit_id, warning=self.permit.warning
        )
        # No retry is possible any more, and a watch would retain the head for its lifetime.
        self.head = b""
        self.client.start_response(head.status, lines, framing, payload, is_complete=is_complete)

    def _hold_401(self, held: HeldResponse, upstream: UpstreamConnection) -> None:
        """Hold a 401 until it is attributed to the client or to the proxy.

        Reading is paused meanwhile, so at most the bytes of one socket read are held.
        """
        self._held = held
        if not held.has_ended:
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
        self._start(held.head, held.head.framing, held.body, is_complete=held.has_ended)
        if self._upstream is not None and not self._client_is_slow:
            self._upstream.resume_reading()

    def _switch_protocols(self, head: ResponseHead, payload: bytes) -> None:
        """Open a tunnel, only for exactly the protocol that the client requested."""
        wanted, offered = self.client.request.upgrade, head.upgrade
        if wanted is None or offered is None or wanted.lower() != offered.lower():
            self._release(abandon=True)
            self.reject(BadGateway("the API server switched to a protocol that was not requested"))
            return
        self._is_tunnel = True
        lines = build_response_lines(
            head.lines, audit_id=self.audit_id, warning=self.permit.warning, upgrade=offered
        )
        self.client.switch_protocols(lines)
        if payload:
            self.client.send(payload)

    def response_data(self, payload: bytes) -> None:
        """Forward a part of the response body at once, unless the response is held."""
        held = self._held
        if held is None:
            self.client.send(payload)
        else:
            self._append_held(held, payload)

    def response_ended(self) -> None:
        """Finish the response; the connection is already back in the pool."""
        self._release(abandon=False)
        held = self._held
        if held is None:
            self.client.end()
            return
        held.has_ended = True
        self._attribute_403(held)

    def _hold_403(self, held: HeldResponse, payload: bytes) -> None:
        """Hold a 403 until its body ends, or shows that it is not the API server's denial."""
        self._held = held
        self._append_held(held, payload)
        if held.has_ended and self._held is not None:
            self._attribute_403(held)

    def _append_held(self, held: HeldResponse, payload: bytes) -> None:
        if not held.append(payload):
            self._held = None
            self._send_held(held)

    def _attribute_403(self, held: HeldResponse) -> None:
        request, media_type = self.client.request, held.denial_type
        if media_type is not None:
            denied = DeniedRequest(
                request.method, request.target, request.upgrade is not None, self.permit.user
            )
            self._dependencies.auth_errors.denials.resolve(
                media_type, held.body, denied, self._resolve_held_403
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
        deadlines = self._dependencies.deadlines
        if deadlines is not None:
            deadlines.stop(self)
