"""Parts of an audit event that depend on the exchange: status, object reference and bodies."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.audit.captured_body import CapturedBody
from proxy.audit.event_details import (
    CaptureLimit,
    EventDetails,
    ExchangeSummary,
    event_details,
    incomplete_reason,
)
from proxy.core.audit.objects import MediaType
from proxy.core.audit.policy import Level, RequestAuditConfig
from proxy.core.errors import BadGateway, Forbidden, InternalError, StatusError
from proxy.core.requestinfo.request_info import parse_request_info

LIMIT = CaptureLimit(message=1000, body=400)
PROTOBUF = MediaType(b"application/vnd.kubernetes.protobuf", b"")
CREATE = parse_request_info(b"POST", b"/api/v1/namespaces/n/pods")
PATCH = parse_request_info(b"PATCH", b"/api/v1/namespaces/n/pods/p")
METADATA, REQUEST = RequestAuditConfig(Level.METADATA), RequestAuditConfig(Level.REQUEST)
EVERYTHING = RequestAuditConfig(Level.REQUEST_RESPONSE)
POD = b'{"kind":"Pod","metadata":{"name":"p","uid":"7","managedFields":[1]}}'
BARE_POD = {"kind": "Pod", "metadata": {"name": "p", "uid": "7"}}
WHOLE_POD = json.loads(POD)
OVERSIZED = b'"%b"' % (b"a" * LIMIT.body)
DENIAL = b'{"kind":"Status","status":"Failure","message":"pods is forbidden: User \\"b\\""}'
CONFLICT = b'{"kind":"Status","status":"Failure","message":"exists","reason":"AlreadyExists"}'


def body(content: bytes, media: MediaType | None = None) -> CapturedBody:
    captured = CapturedBody(media or MediaType(b"application/json", b""), limit=LIMIT.body)
    captured.add(content)
    return captured


def details(
    audit_config: RequestAuditConfig,
    *,
    status: int = 200,
    error: StatusError | None = None,
    request: CapturedBody | None = None,
    response: CapturedBody | None = None,
) -> EventDetails:
    summary = ExchangeSummary(status, error, request, response)
    return event_details(summary, audit_config, CREATE, LIMIT)


def parsed(members: str) -> dict[str, Any]:
    """Return members of an event as a document."""
    document: dict[str, Any] = json.loads("{" + members.removeprefix(",") + "}")
    return document


def test_event_without_bodies_has_the_status_code_alone() -> None:
    found = details(EVERYTHING, status=201)

    assert parsed(found.response) == {"responseStatus": {"metadata": {}, "code": 201}}
    assert found == EventDetails(found.response)


def test_event_of_an_error_has_its_message_and_reason() -> None:
    found = details(METADATA, status=403, error=Forbidden("no"), request=body(POD))

    assert parsed(found.response)["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "no",
        "reason": "Forbidden",
        "code": 403,
    }
    assert (found.bodies, found.object_reference) == ("", None)


def test_event_of_an_internal_error_has_its_code_and_no_body() -> None:
    found = details(
        EVERYTHING, status=0, error=InternalError("bug"), request=body(POD), response=body(POD)
    )

    assert parsed(found.response)["responseStatus"]["code"] == 500
    assert found.bodies == ""


def test_status_of_the_api_server_is_the_response_status_of_the_event() -> None:
    found = details(METADATA, status=409, response=body(CONFLICT))

    status = parsed(found.response)["responseStatus"]
    assert (status["message"], status["reason"], status["code"]) == ("exists", "AlreadyExists", 409)
    assert found.bodies == ""


@pytest.mark.parametrize(
    ("audit_config", "members"),
    [
        (METADATA, []),
        (REQUEST, ["requestObject"]),
        (EVERYTHING, ["requestObject", "responseObject"]),
    ],
    ids=["metadata", "request", "request and response"],
)
def test_bodies_are_recorded_at_the_level_that_includes_them(
    audit_config: RequestAuditConfig, members: list[str]
) -> None:
    found = details(audit_config, status=201, request=body(POD), response=body(POD))

    assert parsed(found.bodies) == dict.fromkeys(members, WHOLE_POD)
    assert (found.request_omission, found.response_omission) == ("", "")


def test_created_object_is_named_by_its_body_at_every_level() -> None:
    found = details(METADATA, status=201, request=body(POD))

    assert found.object_reference is not None
    reference = parsed(found.object_reference)["objectRef"]
    assert (reference["namespace"], reference["name"], reference["uid"]) == ("n", "p", "7")


def test_patched_object_is_not_named_by_its_body() -> None:
    summary = ExchangeSummary(200, None, body(POD), None)

    assert event_details(summary, REQUEST, PATCH, LIMIT).object_reference is None


@pytest.mark.parametrize(
    ("status", "answer", "is_recorded"),
    [(201, POD, True), (409, CONFLICT, True), (403, DENIAL, False), (400, CONFLICT, False)],
    ids=["created", "conflict", "denied", "malformed"],
)
def test_request_body_is_recorded_only_if_the_api_server_read_it(
    status: int, answer: bytes, *, is_recorded: bool
) -> None:
    found = details(REQUEST, status=status, request=body(POD), response=body(answer))

    assert (found.bodies != "") is is_recorded
    assert (found.object_reference is not None) is is_recorded
    assert found.request_omission == ""


def test_managed_fields_are_omitted_from_objects_but_not_from_a_patch() -> None:
    omitting = RequestAuditConfig(Level.REQUEST_RESPONSE, omits_managed_fields=True)
    summary = ExchangeSummary(200, None, body(POD), body(POD))

    created = event_details(summary, omitting, CREATE, LIMIT)
    patched = event_details(summary, omitting, PATCH, LIMIT)

    assert parsed(created.bodies) == {"requestObject": BARE_POD, "responseObject": BARE_POD}
    assert parsed(patched.bodies) == {"requestObject": WHOLE_POD, "responseObject": BARE_POD}


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (lambda: body(OVERSIZED), "longer than 400 bytes"),
        (lambda: body(b"{"), "not JSON"),
        (lambda: body(b"", PROTOBUF), "application/vnd.kubernetes.protobuf"),
        # Each invalid byte is three bytes in the event.
        (lambda: body(b'"%b"' % (b"\xff" * 200)), "longer than 400 bytes"),
    ],
    ids=["too long", "malformed", "protobuf", "too long when encoded"],
)
def test_omitted_body_has_a_reason(lost: Callable[[], CapturedBody], reason: str) -> None:
    found = details(EVERYTHING, status=201, request=lost(), response=lost())

    assert found.bodies == ""
    assert (found.request_omission, found.response_omission) == (reason, reason)


def test_body_that_cannot_be_encoded_again_has_a_reason() -> None:
    omitting = RequestAuditConfig(Level.REQUEST, omits_managed_fields=True)
    summary = ExchangeSummary(201, None, body(b'{"managedFields":1,"a":1e999}'), None)

    found = event_details(summary, omitting, CREATE, LIMIT)

    assert found.bodies == ""
    assert found.request_omission == "nested too deeply, or with numbers too large"


@pytest.mark.parametrize(
    ("content", "reason"), [(OVERSIZED, "longer than 400 bytes"), (b"{", "")], ids=["long", "other"]
)
def test_body_that_only_names_the_object_is_missed_only_if_too_long(
    content: bytes, reason: str
) -> None:
    found = details(METADATA, status=201, request=body(content))

    assert found.request_omission == reason
    assert found.object_reference is None


def test_long_status_message_is_truncated_and_listed() -> None:
    found = details(METADATA, status=403, error=Forbidden("a" * 5000))

    assert len(found.response) < 1100
    assert [cut.path for cut in found.cuts] == ["responseStatus"]
    assert details(METADATA, status=403, error=Forbidden("a")).cuts == ()


@pytest.mark.parametrize(
    ("status", "sent", "error", "is_complete", "reason"),
    [
        (200, None, None, True, ""),
        (200, None, None, False, "the client disconnected"),
        (101, None, None, False, ""),
        (403, Forbidden("no"), Forbidden("no"), True, ""),
        (200, None, BadGateway("the connection broke"), False, "the connection broke"),
        (200, None, BadGateway("the connection broke"), True, "the connection broke"),
    ],
    ids=["complete", "disconnected", "tunnel", "error sent", "broken", "broken at the end"],
)
def test_incomplete_response_has_a_reason(
    status: int,
    sent: StatusError | None,
    error: StatusError | None,
    reason: str,
    *,
    is_complete: bool,
) -> None:
    summary = ExchangeSummary(status, sent, None, None)

    assert incomplete_reason(summary, error, is_complete=is_complete) == reason
