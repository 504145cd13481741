"""The parts of an audit event that depend on the exchange: status, bodies and annotations."""

from datetime import timedelta
from typing import NamedTuple

from proxy.audit.captured_body import CapturedBody
from proxy.audit.request_record import RequestRecord
from proxy.core.audit.annotations import Latencies, ResponseOutcome, format_latencies
from proxy.core.audit.event import object_text, response_text
from proxy.core.audit.objects import (
    JSONBody,
    metadata_of,
    request_body_was_read,
    status_of,
    without_managed_fields,
)
from proxy.core.audit.policy import RequestAuditConfig
from proxy.core.errors import BadRequest, Forbidden, InternalError, StatusError
from proxy.core.impersonation.headers import parse_impersonation_headers
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.truncation import (
    NO_TRUNCATED_VALUES,
    BoundedText,
    TruncatedValues,
    encoded_size,
)
from proxy.core.userinfo import UserInfo
from proxy.wire.exchange import ExchangeOutcome
from proxy.wire.http1.message import SWITCHING_PROTOCOLS

_OBJECT_NAMING_VERBS = frozenset(("create", "update"))


class ExchangeSummary(NamedTuple):
    """What was captured of an exchange: the status that was sent (0 for none), and bodies.

    The error is set only if the client received it, or would have received it.
    """

    status: int
    error: StatusError | None
    request: CapturedBody | None
    response: CapturedBody | None


class EventDetails(NamedTuple):
    """Parts of an event, and why bodies are missing in it."""

    response: str = ""
    bodies: str = ""
    object_reference: str | None = None
    """None: the request target is the only source of the object reference."""
    request_omission: str = ""
    response_omission: str = ""
    cuts: TruncatedValues = NO_TRUNCATED_VALUES
    outcome: ResponseOutcome | None = None
    """Set for the last event of a request."""


class CaptureLimit(NamedTuple):
    """The largest status message and the largest body of an event, in bytes."""

    message: int
    body: int


def event_details(
    summary: ExchangeSummary,
    audit_config: RequestAuditConfig,
    request_info: RequestInfo,
    limit: CaptureLimit,
) -> EventDetails:
    """Return the parts of an event that depend on the exchange."""
    status, error, request_body, response_body = summary
    if isinstance(error, InternalError):
        return _plain(response_text(error.code, error, max_bytes=limit.message))
    if request_body is None and response_body is None:
        return _plain(response_text(status, error, max_bytes=limit.message))
    answer = response_body.read() if response_body is not None else None
    answered = status_of(answer) if error is None else None
    request: JSONBody | None = None
    lost_request = lost_response = ""
    if request_body is not None and error is None and request_body_was_read(status, answered):
        request = request_body.read()
        if request is None and (audit_config.has_request_body or request_body.is_too_long):
            lost_request = request_body.omission_reason
    if audit_config.has_response_body and response_body is not None and answer is None:
        lost_response = response_body.omission_reason
    response = response_text(status, error, answered, max_bytes=limit.message)
    details = EventDetails(
        response.text,
        request_omission=lost_request,
        response_omission=lost_response,
        cuts=response.truncated_values,
    )
    if request is not None and request_info.verb in _OBJECT_NAMING_VERBS:
        named = object_text(request_info, metadata_of(request))
        details = details._replace(
            object_reference=named.text, cuts=details.cuts + named.truncated_values
        )
    return _with_bodies(
        details, audit_config, request_info, bodies=(request, answer), most=limit.body
    )


def _plain(response: BoundedText) -> EventDetails:
    return EventDetails(response.text, cuts=response.truncated_values)


def response_outcome(
    record: RequestRecord,
    summary: ExchangeSummary,
    outcome: ExchangeOutcome,
    details: EventDetails,
    *,
    ended_at: int,
) -> ResponseOutcome:
    """Return what the annotations of the last event tell about the response."""
    latencies = _latencies(record, ended_at)
    return ResponseOutcome(
        outcome.status if summary.error is None else summary.error.upstream_code,
        outcome.body_bytes,
        incomplete_reason(summary, record.error, is_complete=outcome.is_complete),
        details.request_omission,
        details.response_omission,
        format_latencies(latencies, verb=record.known_request_info.verb),
    )


def _latencies(record: RequestRecord, ended_at: int) -> Latencies:
    permit, called, decided = record.permit, record.authenticated_after, record.decided_after
    impersonation = None
    if (permit is not None and permit.mode is not None) or record.reviews:
        impersonation = None if called is None or decided is None else decided - called
    total = timedelta(microseconds=ended_at // 1000 - record.received_at // 1000)
    return Latencies(total, called, impersonation)


def forbidden_user(record: RequestRecord) -> UserInfo | None:
    """Return the user that the proxy forbade the request to impersonate, if any."""
    if record.permit is not None or not isinstance(record.error, Forbidden):
        return None
    try:
        return parse_impersonation_headers(record.request.headers)
    except BadRequest:
        return None


def incomplete_reason(
    summary: ExchangeSummary, error: StatusError | None, *, is_complete: bool
) -> str:
    """Return why the response is incomplete; empty if it is complete.

    A tunnel always ends by a disconnect, so it counts as complete.
    """
    if error is not None and summary.error is None:
        return error.message
    is_whole = is_complete or summary.status == SWITCHING_PROTOCOLS
    return "" if is_whole else "the client disconnected"


def _with_bodies(
    details: EventDetails,
    audit_config: RequestAuditConfig,
    request_info: RequestInfo,
    *,
    bodies: tuple[JSONBody | None, JSONBody | None],
    most: int,
) -> EventDetails:
    """Return the details with the bodies that are to be recorded, or why one is omitted."""
    strips, (request, answer) = audit_config.omits_managed_fields, bodies
    if audit_config.has_request_body and request is not None:
        # A patch is recorded unchanged, as kube-apiserver does: it may patch managedFields.
        strips_request = strips and request_info.verb != "patch"
        text = without_managed_fields(request) if strips_request else request.text
        member, loss = _member("requestObject", text, most)
        details = details._replace(bodies=member, request_omission=loss or details.request_omission)
    if audit_config.has_response_body and answer is not None:
        text = without_managed_fields(answer) if strips else answer.text
        member, loss = _member("responseObject", text, most)
        details = details._replace(
            bodies=details.bodies + member, response_omission=loss or details.response_omission
        )
    return details


def _member(name: str, text: str | None, most: int) -> tuple[str, str]:
    """Return a body as a JSON member of an event and no reason, or nothing and why it is omitted.

    A body within the limit may exceed it when encoded: each invalid byte becomes three bytes.
    """
    if text is None:
        return "", "nested too deeply, or with numbers too large"
    if encoded_size(text) > most:
        return "", f"longer than {most} bytes"
    return f',"{name}":{text}', ""
