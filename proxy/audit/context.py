"""The audit of one request: records its facts, and writes an event at each recorded stage.

Without audit only the access log line remains.
"""

import os

from proxy.audit.body_capture import BodyCapture
from proxy.audit.event_details import EventDetails, response_outcome
from proxy.audit.event_writer import write_event, write_unremarkable_event
from proxy.audit.request_record import RequestRecord, RequestTelemetry
from proxy.audit.state import AuditState
from proxy.core.audit.annotations import SLOW_REQUEST, new_audit_ids
from proxy.core.audit.event import Stage, quoted
from proxy.core.errors import AuditUnavailable, InternalError, RequestInfoError, StatusError
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller
from proxy.wire.exchange import ExchangeOutcome, Peer
from proxy.wire.http1.message import RequestHead

_RANDOM_BYTES = 256 * 16
_LONG_SECONDS = SLOW_REQUEST.total_seconds()
# An access to a member of an enumeration takes as long as a call.
_RECEIVED, _STARTED = Stage.REQUEST_RECEIVED.value, Stage.RESPONSE_STARTED.value
_COMPLETE, _PANIC = Stage.RESPONSE_COMPLETE.value, Stage.PANIC.value
_WITHOUT_EVENT = (RequestInfoError, AuditUnavailable)
_NO_DETAILS = EventDetails()


class RequestRecorder:
    """Starts an audit context for each request."""

    def __init__(self, telemetry: RequestTelemetry, state: AuditState | None) -> None:
        """Without a state no request has events, and no exchange has to be observed."""
        self._telemetry = telemetry
        self._state = state
        self._ids: list[bytes] = []

    def begin(self, request: RequestHead, peer: Peer, audit_id: bytes | None) -> "AuditContext":
        """Start an audit context with the client's audit ID, or a new one."""
        telemetry, state, capture = self._telemetry, self._state, None
        if audit_id is None:
            audit_id = (self._ids or self._new_ids()).pop()
            quoted_id = f'"{audit_id.decode()}"'
        else:
            quoted_id = quoted(audit_id.decode())
        received_at = 0 if state is None else telemetry.wall_clock()
        record = RequestRecord(request, peer, audit_id, quoted_id, telemetry.clock(), received_at)
        if state is not None:
            capture = BodyCapture(state, record, telemetry.wall_clock)
        if telemetry.tracing is not None:
            telemetry.tracing.start_span((audit_id, id(request)), request.headers)
        return AuditContext(telemetry, record, capture)

    def _new_ids(self) -> list[bytes]:
        """Return unique audit IDs for this request and the next ones."""
        # One read of random bytes from the kernel for many IDs costs as much as for one.
        self._ids = new_audit_ids(os.urandom(_RANDOM_BYTES))
        return self._ids


class AuditContext:
    """Records one request, and writes its audit events and its access log line.

    Before authentication there is no user that a policy rule could match. A response sent before
    that writes one event, of stage ResponseStarted, as kube-apiserver does.
    """

    __slots__ = ("_record", "_telemetry", "audit_id", "observer")

    def __init__(
        self, telemetry: RequestTelemetry, record: RequestRecord, capture: BodyCapture | None
    ) -> None:
        """Without a `capture`, no events are written."""
        self._telemetry = telemetry
        self._record = record
        # Observes the exchange. None if it need not be observed.
        self.observer = capture
        self.audit_id = record.audit_id

    def set_request_info(self, request_info: RequestInfo) -> None:
        """Record the request info."""
        self._record.request_info = request_info

    def set_caller(self, caller: Caller) -> None:
        """Record the caller, evaluate the audit policy, and write the RequestReceived event."""
        record = self._record
        record.caller = caller
        record.authenticated_at = self._telemetry.clock()
        if self.observer is not None:
            state = self.observer.state
            request_info = record.request_info or record.known_request_info
            audit_config = record.audit_config = state.policy.evaluate(caller.user, request_info)
            if audit_config.writes_received:
                at = record.received_at
                write_event(state, record, audit_config, _RECEIVED, at, _NO_DETAILS)

    def add_reviews(self, count: int) -> None:
        """Record how many access reviews the decision needed."""
        self._record.reviews = count

    def set_permit(self, permit: Permit) -> None:
        """Record the permit, and so the user the request is forwarded as."""
        record = self._record
        record.permit = permit
        record.decided_at = self._telemetry.clock()
        request_info = record.request_info
        if request_info is not None and request_info.is_long_running:
            self._release_head()

    def set_error(self, error: StatusError) -> None:
        """Record why the request is rejected."""
        record = self._record
        record.error = error
        if record.decided_at is None:
            record.decided_at = self._telemetry.clock()

    def finish(self, outcome: ExchangeOutcome) -> None:
        """Write the last audit event and the access log line, and count the request."""
        telemetry, record, capture = self._telemetry, self._record, self.observer
        ended_at, seconds = telemetry.wall_clock(), telemetry.clock() - record.began_at
        # A request that cannot be parsed writes no event: kube-apiserver also rejects it before its
        # audit begins. A request rejected because events cannot be stored writes none either. It
        # would fill the buffer that requests in flight still need. It is counted instead.
        if capture is not None and not isinstance(record.error, _WITHOUT_EVENT):
            _write_last_event(record, capture, outcome, ended_at=ended_at, seconds=seconds)
        telemetry.report(record, outcome, ended_at=ended_at, seconds=seconds)

    def _release_head(self) -> None:
        """Release the request head for the duration of a watch, unless it is still needed."""
        record, audit_config = self._record, self._record.audit_config
        # Tracing identifies a request by its head. A body is captured by its media type.
        if self._telemetry.tracing is None and not record.request.framing.has_body:
            record.release_head(has_events=audit_config is not None and not audit_config.is_none)


def _write_last_event(
    record: RequestRecord,
    capture: BodyCapture,
    outcome: ExchangeOutcome,
    *,
    ended_at: int,
    seconds: float,
) -> None:
    state, audit_config = capture.state, record.audit_config
    if audit_config is None:
        audit_config = state.policy.evaluate(None, record.known_request_info)
        stage, is_wanted = _STARTED, audit_config.writes_started
    else:
        capture.write_started(audit_config, outcome.status)
        stage, is_wanted = _COMPLETE, audit_config.writes_complete
    if isinstance(record.error, InternalError):
        stage, is_wanted = _PANIC, audit_config.writes_panic
    if not is_wanted:
        return
    if (
        capture.is_empty
        and seconds <= _LONG_SECONDS
        and write_unremarkable_event(state, record, audit_config, outcome, ended_at=ended_at)
    ):
        return
    summary = capture.summarize(outcome.status)
    details = capture.details(summary, audit_config)
    ending = response_outcome(record, summary, outcome, details, ended_at=ended_at)
    write_event(state, record, audit_config, stage, ended_at, details._replace(outcome=ending))
