"""What an exchange adds to its events: how it was answered, and its bodies."""

from typing import NamedTuple

from proxy.audit.body_capture import CapturedBody
from proxy.core.audit.event import object_text, response_text
from proxy.core.audit.objects import (
    JSONBody,
    metadata_of,
    request_body_was_read,
    status_of,
    without_managed_fields,
)
from proxy.core.audit.policy import AuditPolicy, RequestAuditConfig
from proxy.core.errors import InternalError, StatusError
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.truncation import (
    NO_CUTS,
    BoundedText,
    Cuts,
    encoded_size,
)
from proxy.wire.http1.message import SWITCHING_PROTOCOLS


class EventTemplate(NamedTuple):
    """What plain events of equal requests have in common, as long as what they rest on is."""

    permit: Permit
    policy: AuditPolicy
    audit_config: RequestAuditConfig
    pattern: bytes
    """For the id, the code, two moments, the bytes of the answer, and the code once more."""


_NAMING_VERBS = frozenset(("create", "update"))


class ExchangeSummary(NamedTuple):
    """Whatever was heard of an exchange: the status that was sent (0 for none), and bodies.

    The refusal is only one that the client was told, or would have been.
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
    """None: nothing is known of the object but what the target says."""
    lost_request: str = ""
    lost_response: str = ""
    cuts: Cuts = NO_CUTS


class CaptureLimit(NamedTuple):
    """How many bytes an event has for what was heard."""

    message: int
    body: int


def event_details(
    summary: ExchangeSummary,
    audit_config: RequestAuditConfig,
    request_info: RequestInfo,
    room: CaptureLimit,
) -> EventDetails:
    """Return what an exchange adds to its events."""
    status, error, heard_request, heard_answer = summary
    if isinstance(error, InternalError):
        return _plain(response_text(error.code, error, most=room.message))
    if heard_request is None and heard_answer is None:
        return _plain(response_text(status, error, most=room.message))
    answer = heard_answer.read() if heard_answer is not None else None
    answered = status_of(answer) if error is None else None
    request: JSONBody | None = None
    lost_request = lost_response = ""
    if heard_request is not None and error is None and request_body_was_read(status, answered):
        request = heard_request.read()
        if request is None and (audit_config.has_request_body or heard_request.is_too_long):
            lost_request = heard_request.omission_reason
    if audit_config.has_response_body and heard_answer is not None and answer is None:
        lost_response = heard_answer.omission_reason
    response = response_text(status, error, answered, most=room.message)
    details = EventDetails(
        response.text, lost_request=lost_request, lost_response=lost_response, cuts=response.cuts
    )
    if request is not None and request_info.verb in _NAMING_VERBS:
        named = object_text(request_info, metadata_of(request))
        details = details._replace(object_reference=named.text, cuts=details.cuts + named.cuts)
    return _with_bodies(
        details, audit_config, request_info, bodies=(request, answer), most=room.body
    )


def _plain(response: BoundedText) -> EventDetails:
    return EventDetails(response.text, cuts=response.cuts)


def incomplete_reason(
    summary: ExchangeSummary, error: StatusError | None, *, is_complete: bool
) -> str:
    """Say why the answer is not whole, if it is not. A tunnel has no other end."""
    if error is not None and summary.error is None:
        return error.message
    is_whole = is_complete or summary.status == SWITCHING_PROTOCOLS
    return "" if is_whole else "the client has left"


def _with_bodies(
    details: EventDetails,
    audit_config: RequestAuditConfig,
    request_info: RequestInfo,
    *,
    bodies: tuple[JSONBody | None, JSONBody | None],
    most: int,
) -> EventDetails:
    """Add the bodies that are to be recorded, or why one of them is not."""
    strips, (request, answer) = audit_config.omits_managed_fields, bodies
    if audit_config.has_request_body and request is not None:
        # A patch is recorded as it came, as natively: it may be about managedFields.
        strips_request = strips and request_info.verb != "patch"
        text = without_managed_fields(request) if strips_request else request.text
        member, loss = _member("requestObject", text, most)
        details = details._replace(bodies=member, lost_request=loss or details.lost_request)
    if audit_config.has_response_body and answer is not None:
        text = without_managed_fields(answer) if strips else answer.text
        member, loss = _member("responseObject", text, most)
        details = details._replace(
            bodies=details.bodies + member, lost_response=loss or details.lost_response
        )
    return details


def _member(name: str, text: str | None, most: int) -> tuple[str, str]:
    """Return a body as a member of an event, or nothing and why.

    What came short enough may be too long as it is written: bytes that are no text become three.
    """
    if text is None:
        return "", "nested too deeply, or with numbers too large"
    if encoded_size(text) > most:
        return "", f"longer than {most} bytes"
    return f',"{name}":{text}', ""
