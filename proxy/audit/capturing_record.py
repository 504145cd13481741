"""A request record that also captures the bodies that its audit events need."""

from collections.abc import Sequence
from http import HTTPStatus

from proxy.audit.body_capture import (
    CapturedBody,
    CapturingReceiver,
    capture_request_body,
    capture_response_body,
)
from proxy.audit.request_record import RequestRecord, RequestRecorder
from proxy.audit.state import AuditState
from proxy.core.audit.event import quoted
from proxy.core.audit.fragments import RequestFragments
from proxy.core.audit.objects import has_response_object
from proxy.core.audit.policy import RequestAuditConfig
from proxy.core.http.headers import Header
from proxy.core.request_cache import EventTemplate
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import ANONYMOUS, Caller
from proxy.wire.exchange import ExchangeObserver, Peer, RequestBodyHandler
from proxy.wire.http1.message import SWITCHING_PROTOCOLS, RequestHead

_READ_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_MIN_ERROR_STATUS = HTTPStatus.BAD_REQUEST.value


class CapturingRecord(RequestRecord):
    """A request record that evaluates the audit policy, and captures what the policy records."""

    __slots__ = (
        "_audit_config",
        "_fragments",
        "_received_at",
        "_request_body",
        "_response_body",
        "_reviews",
        "_started_at",
        "_state",
        "_template",
    )

    def __init__(
        self,
        recorder: RequestRecorder,
        state: AuditState,
        request: RequestHead,
        peer: Peer,
        audit_id: bytes,
    ) -> None:
        super().__init__(recorder, request, peer, audit_id)
        self._received_at = recorder.wall_clock()
        self._state = state
        self._audit_config: RequestAuditConfig | None = None
        self._template: EventTemplate | None = None
        self._fragments: RequestFragments | None = None
        self._started_at: int | None = None
        self._reviews = 0
        self._request_body: CapturedBody | None = None
        self._response_body: CapturedBody | None = None

    @property
    def observer(self) -> ExchangeObserver | None:
        """Return this record: it observes the exchange."""
        return self

    # --- facts about the request ----------------------------------------------------------------

    def set_caller(self, caller: Caller) -> None:
        """Record the caller, and evaluate how much of the request the audit policy records."""
        super().set_caller(caller)
        self._evaluate_policy(caller)

    @property
    def _quoted_audit_id(self) -> str:
        return quoted(self.audit_id.decode("ascii"))

    def _evaluate_policy(self, caller: Caller) -> None:
        audit_config = self._state.policy.evaluate(caller.user, self._known_request_info)
        self._audit_config = audit_config
        if audit_config.writes_received:
            self._write_received(audit_config)

    def add_reviews(self, count: int) -> None:
        """Record how many access reviews the decision needed, if any."""
        self._reviews = count

    # --- relayed bodies --------------------------------------------------------------------

    def tee(self, receiver: RequestBodyHandler) -> RequestBodyHandler:
        """Return a handler that also captures a body to be recorded or naming the object."""
        audit_config, request = self._audit_config, self._request
        if audit_config is None or audit_config.is_none or not request.framing.has_body:
            return receiver
        limit = self._state.body_bytes
        self._request_body = body = capture_request_body(
            audit_config, request, self._known_request_info, limit=limit
        )
        is_captured = body is not None and body.media.is_json
        return CapturingReceiver(receiver, body) if body is not None and is_captured else receiver

    def wants_response(self, status: int) -> bool:
        """Return whether a complete response is recorded beyond its status and its length."""
        audit_config = self._audit_config
        if audit_config is None:
            return True
        if audit_config.is_none:
            return False
        if status >= _MIN_ERROR_STATUS or audit_config.has_response_body:
            return True
        # A template exists only for plain requests, which are reads and not long-running.
        if self._template is not None:
            return False
        return self._request.method not in _READ_METHODS or self._request_fragments.is_long_running

    def captures_body(self, status: int) -> bool:
        """Return whether the response body is captured, to be recorded or to look for a Status."""
        audit_config = self._audit_config
        if audit_config is None:
            return True
        may_have_status = status >= _MIN_ERROR_STATUS or self._request.method not in _READ_METHODS
        return not audit_config.is_none and (may_have_status or audit_config.has_response_body)

    def response_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Record that the response head was sent; return whether the body is to be captured.

        A long-running response writes an event of its own here. If that event needs the body, it
        is written at the end, with the timestamp of this call.
        """
        audit_config = self._audit_config
        if audit_config is None:
            return self._start_response_capture(None, status, headers, payload)
        if audit_config.is_none:
            return False
        is_captured = self.captures_body(status) and self._start_response_capture(
            audit_config, status, headers, payload
        )
        is_long = self._request_fragments.is_long_running or status == SWITCHING_PROTOCOLS
        if is_long and audit_config.writes_started:
            self._started_at = self._recorder.wall_clock()
            if not is_captured:
                self._write_started(audit_config, status)
        return is_captured

    def response_data(self, payload: bytes) -> None:
        """Capture the next chunk of the response body."""
        if self._response_body is not None:
            self._response_body.add(payload)

    def _start_response_capture(
        self,
        audit_config: RequestAuditConfig | None,
        status: int,
        headers: Sequence[Header],
        payload: bytes,
    ) -> bool:
        """Start capturing the response body if the audit policy records it, or it may be a Status.

        Before authentication no policy level is known. Such responses are always captured, because
        the proxy generates them and they are short.
        """
        if not has_response_object(self._known_request_info, status):
            return False
        is_whole = audit_config is None or audit_config.has_response_body
        limit = self._state.body_bytes
        self._response_body = body = capture_response_body(
            headers, payload, is_whole=is_whole, limit=limit
        )
        return body is not None and body.media.is_json

    def _write_received(self, audit_config: RequestAuditConfig) -> None:
        """Write the event of stage RequestReceived; a hook for subclasses."""

    def _write_started(self, audit_config: RequestAuditConfig, status: int) -> None:
        """Write the event of stage ResponseStarted; a hook for subclasses."""

    @property
    def _is_authenticated(self) -> bool:
        """Return whether the caller presented a credential; anonymous callers have lower limits."""
        return self._caller is not None and self._caller.user.name != ANONYMOUS

    @property
    def _request_fragments(self) -> RequestFragments:
        if self._fragments is None:
            request, fragments = self._request, self._state.fragments
            build = (
                fragments.request if self._is_authenticated else fragments.unauthenticated_request
            )
            self._fragments = build(self._request_info, request.method, request.target)
        return self._fragments

    @property
    def _known_request_info(self) -> RequestInfo:
        """Return the request info; only method and path if the request cannot be parsed."""
        if self._request_info is not None:
            return self._request_info
        path = self._request.target.partition(b"?")[0].decode("utf-8", "replace")
        return RequestInfo(self._request.method.decode("ascii").lower(), path)
