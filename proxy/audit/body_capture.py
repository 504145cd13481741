"""Observer of the exchange of an audited request: the bodies that its events need."""

from collections.abc import Callable, Sequence
from http import HTTPStatus

from proxy.audit.captured_body import (
    CapturedBody,
    CapturingReceiver,
    capture_request_body,
    capture_response_body,
)
from proxy.audit.event_details import (
    CaptureLimit,
    EventDetails,
    ExchangeSummary,
    event_details,
)
from proxy.audit.event_writer import write_event
from proxy.audit.request_record import RequestRecord
from proxy.audit.state import AuditState
from proxy.core.audit.event import Stage
from proxy.core.audit.objects import has_response_object
from proxy.core.audit.policy import RequestAuditConfig
from proxy.core.http.headers import Header
from proxy.wire.exchange import ANY_STATUS, RequestBodyHandler
from proxy.wire.http1.message import SWITCHING_PROTOCOLS

_READ_METHODS = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_MIN_ERROR_STATUS = HTTPStatus.BAD_REQUEST.value
_STARTED = Stage.RESPONSE_STARTED.value


class BodyCapture:
    """Captures the bodies of one exchange, and writes the ResponseStarted event.

    Before authentication no policy level is known. Such responses are always captured, because the
    proxy generates them and they are short.
    """

    __slots__ = ("_record", "_request", "_response", "_started_at", "_wall_clock", "state")

    def __init__(
        self, state: AuditState, record: RequestRecord, wall_clock: Callable[[], int]
    ) -> None:
        self.state = state
        self._record = record
        self._wall_clock = wall_clock
        self._request: CapturedBody | None = None
        self._response: CapturedBody | None = None
        # When a response started whose ResponseStarted event needs its body.
        self._started_at: int | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether no body was captured."""
        return self._request is None and self._response is None

    # --- observer of the exchange ---------------------------------------------------------------

    def tee(self, receiver: RequestBodyHandler) -> RequestBodyHandler:
        """Return a handler that also captures a body to be recorded or naming the object."""
        record, audit_config = self._record, self._record.audit_config
        if audit_config is None or audit_config.is_none or not record.request.framing.has_body:
            return receiver
        self._request = body = capture_request_body(
            audit_config, record.request, record.known_request_info, limit=self.state.body_bytes
        )
        is_copied = body is not None and body.media.is_json
        return CapturingReceiver(receiver, body) if body is not None and is_copied else receiver

    def wants_response(self, status: int) -> bool:
        """Return whether a complete response is recorded beyond its status and its length."""
        return status >= self.captured_from_status or self._record.is_long_running

    @property
    def captured_from_status(self) -> int:
        """Return the lowest status of a response whose body is captured.

        The body is recorded, or it may be a Status.
        """
        audit_config = self._record.audit_config
        if audit_config is None:
            return 0
        if audit_config.is_none:
            return ANY_STATUS
        is_read = self._record.request.method in _READ_METHODS
        return _MIN_ERROR_STATUS if is_read and not audit_config.has_response_body else 0

    def response_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Record that the response head was sent; return whether the body is to be captured.

        A long-running response writes an event of its own here. If that event needs the body, it
        is written at the end, with the timestamp of this call.
        """
        record, audit_config = self._record, self._record.audit_config
        is_captured = status >= self.captured_from_status and self._start_response(
            status, headers, payload
        )
        if audit_config is None or not audit_config.writes_started:
            return is_captured
        if record.is_long_running or status == SWITCHING_PROTOCOLS:
            self._started_at = self._wall_clock()
            if not is_captured:
                self.write_started(audit_config, status)
        return is_captured

    def response_data(self, payload: bytes) -> None:
        """Capture the next chunk of the response body."""
        if self._response is not None:
            self._response.add(payload)

    def _start_response(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        """Start capturing the response body if it is recorded, or may be a Status."""
        record, audit_config = self._record, self._record.audit_config
        if not has_response_object(record.known_request_info, status):
            return False
        is_whole = audit_config is None or audit_config.has_response_body
        self._response = body = capture_response_body(
            headers, payload, is_whole=is_whole, limit=self.state.body_bytes
        )
        return body is not None and body.media.is_json

    # --- events ---------------------------------------------------------------------------------

    def write_started(self, audit_config: RequestAuditConfig, status: int) -> None:
        """Write the ResponseStarted event of a long-running response, unless it was written."""
        if self._started_at is not None:
            started_at, self._started_at = self._started_at, None
            details = self.details(self.summarize(status), audit_config)
            write_event(self.state, self._record, audit_config, _STARTED, started_at, details)

    def summarize(self, status: int) -> ExchangeSummary:
        """Return what was captured of the exchange, which sent this status."""
        error = self._record.error
        if error is not None and status not in (0, error.code):
            error = None  # The client did not receive it: the response had already started.
        return ExchangeSummary(status, error, self._request, self._response)

    def details(self, summary: ExchangeSummary, audit_config: RequestAuditConfig) -> EventDetails:
        """Return the parts of an event that depend on the exchange."""
        record, limits = self._record, self.state.fragments.limits
        values = limits.authenticated if record.is_authenticated else limits.unauthenticated
        limit = CaptureLimit(values.message, self.state.body_bytes)
        return event_details(summary, audit_config, record.known_request_info, limit)
