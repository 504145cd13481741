"""Records of requests: parsing of events, merging of stages, comparison of both logs."""

from typing import Any

import pytest

from proxy.analysis.audit_join.records import AuditRecord, read_record, read_time
from proxy.core.audit.annotations import DOMAIN
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.truncation import format_truncated_values, truncated_value

LONG_NAME = "a" * 2000
LONG_URI = "/api/v1/pods?labelSelector=" + "a" * 2000


def event(**parts: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "stage": "ResponseComplete",
        "auditID": "id-1",
        "verb": "list",
        "requestURI": "/api/v1/namespaces/web/pods?limit=5",
        "user": {"username": "bob"},
        "objectRef": {"resource": "pods", "namespace": "web"},
        "requestReceivedTimestamp": "2026-11-16T04:00:00.000000Z",
        "responseStatus": {"code": 200},
        **parts,
    }


def cut(path: str, whole: str) -> dict[str, str]:
    return {f"{DOMAIN}/truncated": format_truncated_values([truncated_value(path, whole)])}


def record(**parts: Any) -> AuditRecord:
    return read_record(event(**parts))


def test_complete_event_is_read_into_a_record() -> None:
    found = record(
        impersonatedUser={"username": "alice"},
        authenticationMetadata={"impersonationConstraint": "impersonate:user-info"},
    )

    assert found == AuditRecord(
        audit_id="id-1",
        received_at="2026-11-16T04:00:00.000000Z",
        user="bob",
        target="alice",
        constraint="impersonate:user-info",
        verb="list",
        uri="/api/v1/namespaces/web/pods?limit=5",
        object_text="pods web",
        code=200,
        is_decided=True,
        is_complete=True,
        is_review=False,
    )


def test_effective_user_is_the_impersonated_one_or_the_caller() -> None:
    impersonated = record(impersonatedUser={"username": "alice"})

    assert (impersonated.target, impersonated.impersonated_user) == ("alice", "alice")
    assert (record().target, record().impersonated_user) == (None, "bob")
    assert impersonated.acts_as("alice")
    assert not impersonated.acts_as("bob")
    assert not impersonated.acts_as(None)
    assert record().acts_as("bob")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ({"resource": "pods"}, "pods"),
        ({"resource": "pods", "name": "hello"}, "pods hello"),
        (
            {"resource": "pods", "subresource": "log", "namespace": "web", "name": "hello"},
            "pods/log web/hello",
        ),
        ({"namespace": "web"}, "/api/v1/namespaces/web/pods"),
        (None, "/api/v1/namespaces/web/pods"),
    ],
)
def test_object_is_described_by_its_reference_or_its_path(reference: object, text: str) -> None:
    assert record(objectRef=reference).object_text == text


@pytest.mark.parametrize(
    ("stage", "code", "is_decided", "is_complete", "is_over"),
    [
        ("RequestReceived", None, False, False, False),
        ("RequestReceived", 401, False, False, False),
        ("ResponseStarted", 200, True, False, False),
        ("ResponseStarted", 399, True, False, False),
        ("ResponseStarted", 400, True, False, True),
        ("ResponseStarted", None, True, False, False),
        ("ResponseComplete", 200, True, True, True),
        ("Panic", 500, True, True, True),
    ],
)
def test_request_is_over_after_its_last_stage_or_an_error(
    stage: str, code: int | None, is_decided: object, is_complete: object, is_over: object
) -> None:
    found = record(stage=stage, responseStatus={"code": code})

    assert (found.is_decided, found.is_complete, found.is_over) == (
        is_decided,
        is_complete,
        is_over,
    )


@pytest.mark.parametrize(
    ("verb", "resource", "uri", "is_review"),
    [
        ("create", "subjectaccessreviews", "/a", True),
        ("create", "tokenreviews", "/a", True),
        ("create", "selfsubjectaccessreviews", "/a", True),
        ("get", "", "/version", True),
        ("list", "subjectaccessreviews", "/a", False),
        ("create", "localsubjectaccessreviews", "/a", False),
        ("create", "pods", "/a", False),
        ("get", "", "/version?x", False),
        ("list", "", "/version", False),
    ],
)
def test_only_requests_of_the_proxy_itself_are_reviews(
    verb: str, resource: str, uri: str, is_review: object
) -> None:
    found = record(verb=verb, objectRef={"resource": resource}, requestURI=uri)

    assert found.is_review is is_review


@pytest.mark.parametrize(
    "made",
    [
        None,
        [],
        "Event",
        {},
        event(kind="EventList"),
        event(stage=""),
        event(stage=7),
        event(auditID=""),
        event(auditID=None),
        event(annotations={f"{DOMAIN}/truncated": "{"}),
        event(annotations={f"{DOMAIN}/truncated": "[]"}),
    ],
)
def test_document_that_is_not_an_event_is_an_error(made: object) -> None:
    with pytest.raises(InvalidAuditEvent):
        read_record(made)


@pytest.mark.parametrize(
    "part", ["user", "impersonatedUser", "objectRef", "responseStatus", "verb", "annotations"]
)
@pytest.mark.parametrize("value", [None, 7, []], ids=["null", "number", "list"])
def test_part_of_an_unexpected_type_counts_as_absent(part: str, value: object) -> None:
    without = {name: content for name, content in event().items() if name != part}

    assert record(**{part: value}) == read_record(without)


@pytest.mark.parametrize("code", ["200", 200.0, None, [200]])
def test_status_code_that_is_not_an_integer_is_absent(code: object) -> None:
    assert record(responseStatus={"code": code}).code is None


def test_later_stage_takes_precedence_in_a_merge() -> None:
    first = record(stage="ResponseStarted", impersonatedUser={"username": "alice"})
    later = record(impersonatedUser={"username": "carol"}, responseStatus={"code": 500})

    merged = first.merge(later)

    assert (merged.target, merged.code) == ("carol", 500)
    assert (merged.is_decided, merged.is_complete) == (True, True)


def test_merge_keeps_what_the_later_stage_lacks() -> None:
    first = record(
        impersonatedUser={"username": f"a{TRUNCATION_MARKER}"},
        annotations=cut("impersonatedUser.username", LONG_NAME),
        authenticationMetadata={"impersonationConstraint": "impersonate:user-info"},
    )
    later = record(stage="RequestReceived", user={}, responseStatus={})

    merged = first.merge(later)

    assert (merged.user, merged.code) == ("bob", 200)
    assert merged.constraint == "impersonate:user-info"
    assert (merged.is_decided, merged.is_complete) == (True, True)
    assert merged.acts_as(LONG_NAME)
    assert not merged.acts_as("bob")


def test_merge_does_not_keep_the_truncation_of_a_replaced_user() -> None:
    first = record(user={"username": "b"}, annotations=cut("user.username", LONG_NAME))
    later = record(impersonatedUser={"username": "alice"})

    merged = first.merge(later)

    assert merged.truncated_impersonated_user is None
    assert merged.acts_as("alice")
    assert not merged.acts_as(LONG_NAME)


def test_whole_uris_are_compared_as_text() -> None:
    assert record(requestURI="/a").has_uri_of(record(requestURI="/a"))
    assert not record(requestURI="/a").has_uri_of(record(requestURI="/a?b"))
    # Without the annotation the marker is part of the URI.
    marked = record(requestURI=LONG_URI[:50] + TRUNCATION_MARKER)
    assert not marked.has_uri_of(record(requestURI=LONG_URI))


def test_truncated_uri_is_compared_by_its_digest() -> None:
    truncated = record(
        requestURI=LONG_URI[:50] + TRUNCATION_MARKER, annotations=cut("requestURI", LONG_URI)
    )

    assert truncated.has_uri_of(record(requestURI=LONG_URI))
    for other in (LONG_URI[:-1] + "b", LONG_URI + "a", truncated.uri):
        assert not truncated.has_uri_of(record(requestURI=other))


@pytest.mark.parametrize("part", ["user", "impersonatedUser"])
def test_truncated_name_of_the_effective_user_is_compared_by_its_digest(part: str) -> None:
    short = f"aaa{TRUNCATION_MARKER}"
    found = record(**{part: {"username": short}, "annotations": cut(f"{part}.username", LONG_NAME)})

    assert found.acts_as(LONG_NAME)
    for other in (LONG_NAME[:-1] + "b", short, None):
        assert not found.acts_as(other)


def test_truncated_name_of_the_caller_does_not_matter_with_impersonation() -> None:
    found = record(
        impersonatedUser={"username": "alice"}, annotations=cut("user.username", LONG_NAME)
    )

    assert found.acts_as("alice")
    assert not found.acts_as(LONG_NAME)


def test_time_of_an_event_is_that_of_its_stage() -> None:
    assert read_time({"stageTimestamp": "1970-01-01T00:01:00.500000Z"}) == 60.5
    assert read_time({"stageTimestamp": "1970-01-01T01:00:00+01:00"}) == 0


@pytest.mark.parametrize(
    "made",
    [
        None,
        [],
        {},
        {"stageTimestamp": 7},
        {"stageTimestamp": "yesterday"},
        {"requestReceivedTimestamp": "1970-01-01T00:01:00Z"},
    ],
)
def test_event_without_a_time_is_an_error(made: object) -> None:
    with pytest.raises(InvalidAuditEvent):
        read_time(made)
