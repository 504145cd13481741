"""What an exchange adds to its events: how it was answered, and its bodies."""

from typing import NamedTuple

from proxy.audit.overhearing import HeardBody
from proxy.core.action import Action
from proxy.core.audit_body import (
    Body,
    metadata_of,
    status_of,
    was_read,
    without_managed_fields,
)
from proxy.core.audit_event import object_text, response_text
from proxy.core.audit_policy import Recording
from proxy.core.errors import InternalError, Refusal
from proxy.wire.head import SWITCHING_PROTOCOLS

_NAMING_VERBS = frozenset(("create", "update"))


class Heard(NamedTuple):
    """Whatever was heard of an exchange: the status that was sent (0 for none), and bodies.

    The refusal is only one that the client was told, or would have been.
    """

    status: int
    refusal: Refusal | None
    request: HeardBody | None
    answer: HeardBody | None


class Told(NamedTuple):
    """Parts of an event, and why bodies are missing in it."""

    response: str = ""
    bodies: str = ""
    object_reference: str | None = None
    """None: nothing is known of the object but what the target says."""
    lost_request: str = ""
    lost_response: str = ""


def tell(heard: Heard, recording: Recording, action: Action) -> Told:
    """Return what an exchange adds to its events."""
    status, refusal, heard_request, heard_answer = heard
    if isinstance(refusal, InternalError):
        return Told(response_text(refusal.code, refusal))
    if heard_request is None and heard_answer is None:
        return Told(response_text(status, refusal))
    answer = heard_answer.read() if heard_answer is not None else None
    answered = status_of(answer) if refusal is None else None
    request: Body | None = None
    lost_request = lost_response = ""
    if heard_request is not None and refusal is None and was_read(status, answered):
        request = heard_request.read()
        if request is None and (recording.has_request_body or heard_request.is_too_long):
            lost_request = heard_request.loss
    if recording.has_response_body and heard_answer is not None and answer is None:
        lost_response = heard_answer.loss
    names_object = request is not None and action.verb in _NAMING_VERBS
    return Told(
        response_text(status, refusal, answered),
        _members(recording, action, request, answer),
        object_text(action, metadata_of(request)) if names_object else None,
        lost_request,
        lost_response,
    )


def breakage(heard: Heard, refusal: Refusal | None, *, is_complete: bool) -> str:
    """Say why the answer is not whole, if it is not. A tunnel has no other end."""
    if refusal is not None and heard.refusal is None:
        return refusal.message
    is_whole = is_complete or heard.status == SWITCHING_PROTOCOLS
    return "" if is_whole else "the client has left"


def _members(
    recording: Recording, action: Action, request: Body | None, answer: Body | None
) -> str:
    members = ""
    strips = recording.omits_managed_fields
    if recording.has_request_body and request is not None:
        # A patch is recorded as it came, as natively: it may be about managedFields.
        strips_request = strips and action.verb != "patch"
        text = without_managed_fields(request) if strips_request else request.text
        members = f',"requestObject":{text}'
    if recording.has_response_body and answer is not None:
        text = without_managed_fields(answer) if strips else answer.text
        members = f'{members},"responseObject":{text}'
    return members
