"""What an exchange adds to its events: how it was answered, and its bodies."""

from typing import NamedTuple

from proxy.audit.body_capture import HeardBody
from proxy.core.audit.event import object_text, response_text
from proxy.core.audit.objects import (
    Body,
    metadata_of,
    status_of,
    was_read,
    without_managed_fields,
)
from proxy.core.audit.policy import AuditPolicy, Recording
from proxy.core.errors import InternalError, Refusal
from proxy.core.impersonation.permit import Admission
from proxy.core.requestinfo.request_info import Action
from proxy.core.truncation import (
    NO_CUTS,
    Cuts,
    Piece,
    encoded_size,
)
from proxy.wire.http1.message import SWITCHING_PROTOCOLS


class EqualEvent(NamedTuple):
    """What plain events of equal requests have in common, as long as what they rest on is."""

    admission: Admission
    policy: AuditPolicy
    recording: Recording
    pattern: bytes
    """For the id, the code, two moments, the bytes of the answer, and the code once more."""


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
    cuts: Cuts = NO_CUTS


class Room(NamedTuple):
    """How many bytes an event has for what was heard."""

    message: int
    body: int


def tell(heard: Heard, recording: Recording, action: Action, room: Room) -> Told:
    """Return what an exchange adds to its events."""
    status, refusal, heard_request, heard_answer = heard
    if isinstance(refusal, InternalError):
        return _plain(response_text(refusal.code, refusal, most=room.message))
    if heard_request is None and heard_answer is None:
        return _plain(response_text(status, refusal, most=room.message))
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
    response = response_text(status, refusal, answered, most=room.message)
    told = Told(
        response.text, lost_request=lost_request, lost_response=lost_response, cuts=response.cuts
    )
    if request is not None and action.verb in _NAMING_VERBS:
        named = object_text(action, metadata_of(request))
        told = told._replace(object_reference=named.text, cuts=told.cuts + named.cuts)
    return _with_bodies(told, recording, action, bodies=(request, answer), most=room.body)


def _plain(response: Piece) -> Told:
    return Told(response.text, cuts=response.cuts)


def breakage(heard: Heard, refusal: Refusal | None, *, is_complete: bool) -> str:
    """Say why the answer is not whole, if it is not. A tunnel has no other end."""
    if refusal is not None and heard.refusal is None:
        return refusal.message
    is_whole = is_complete or heard.status == SWITCHING_PROTOCOLS
    return "" if is_whole else "the client has left"


def _with_bodies(
    told: Told,
    recording: Recording,
    action: Action,
    *,
    bodies: tuple[Body | None, Body | None],
    most: int,
) -> Told:
    """Add the bodies that are to be recorded, or why one of them is not."""
    strips, (request, answer) = recording.omits_managed_fields, bodies
    if recording.has_request_body and request is not None:
        # A patch is recorded as it came, as natively: it may be about managedFields.
        strips_request = strips and action.verb != "patch"
        text = without_managed_fields(request) if strips_request else request.text
        member, loss = _member("requestObject", text, most)
        told = told._replace(bodies=member, lost_request=loss or told.lost_request)
    if recording.has_response_body and answer is not None:
        text = without_managed_fields(answer) if strips else answer.text
        member, loss = _member("responseObject", text, most)
        told = told._replace(bodies=told.bodies + member, lost_response=loss or told.lost_response)
    return told


def _member(name: str, text: str | None, most: int) -> tuple[str, str]:
    """Return a body as a member of an event, or nothing and why.

    What came short enough may be too long as it is written: bytes that are no text become three.
    """
    if text is None:
        return "", "nested too deeply, or with numbers too large"
    if encoded_size(text) > most:
        return "", f"longer than {most} bytes"
    return f',"{name}":{text}', ""
