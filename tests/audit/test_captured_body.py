"""Captured bodies: which are captured, up to which size, and why one cannot be recorded."""

import gzip

import pytest

from proxy.audit.captured_body import (
    CapturedBody,
    CapturingReceiver,
    capture_request_body,
    capture_response_body,
)
from proxy.core.audit.objects import MediaType
from proxy.core.audit.policy import Level, RequestAuditConfig
from proxy.core.errors import BadRequest, StatusError
from proxy.core.http.headers import Header, HeaderList
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import RequestHead

LIMIT = 20
JSON = MediaType(b"application/json", b"")
GZIP = MediaType(b"application/json", b"gzip")
PROTOBUF = MediaType(b"application/vnd.kubernetes.protobuf", b"")
TEXT = MediaType(b"text/plain", b"")
STATUS = b'{"kind":"Status","code":403}'
POD = b'{"kind":"Pod"}'
JSON_HEADERS: list[Header] = [(b"Content-Type", b"application/json")]
PROTOBUF_HEADERS: list[Header] = [(b"Content-Type", b"application/vnd.kubernetes.protobuf")]
PODS = b"/api/v1/namespaces/n/pods"


def captured(*chunks: bytes, media: MediaType = JSON) -> CapturedBody:
    body = CapturedBody(media, limit=LIMIT)
    for chunk in chunks:
        body.add(chunk)
    return body


def test_body_within_the_limit_is_parsed_from_all_its_chunks() -> None:
    body = captured(b'{"a":', b"", b"1}")

    read = body.read()

    assert read is not None
    assert (read.text, read.document) == ('{"a":1}', {"a": 1})


def test_compressed_body_is_parsed_after_decompression() -> None:
    body = CapturedBody(GZIP, limit=100)

    body.add(gzip.compress(b"[1]", mtime=0))

    read = body.read()
    assert read is not None
    assert read.document == [1]


def test_compressed_body_that_exceeds_the_limit_when_unpacked_is_not_read() -> None:
    body = CapturedBody(GZIP, limit=100)

    body.add(gzip.compress(b"[" + b" " * 5000 + b"]", mtime=0))

    assert not body.is_too_long
    assert body.read() is None


@pytest.mark.parametrize(
    ("chunks", "is_too_long"),
    [
        ((b"1" * LIMIT,), False),
        ((b"1" * LIMIT, b"1"), True),
        ((b"1" * (LIMIT + 1),), True),
        ((b"1" * LIMIT, b"1", b""), True),
    ],
    ids=["at the limit", "one more in a second chunk", "one more", "and an empty chunk"],
)
def test_body_above_the_limit_is_not_read(chunks: tuple[bytes, ...], *, is_too_long: bool) -> None:
    body = captured(*chunks)

    assert body.is_too_long is is_too_long
    assert (body.read() is None) is is_too_long


def test_body_that_became_too_long_stays_unread_and_keeps_no_chunk() -> None:
    body = captured(b"[" * LIMIT, b"[")

    body.add(b"1")

    assert body.read() is None
    assert body._chunks == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (captured(b"{"), "not JSON"),
        (captured(), ""),
        (captured(b"1" * (LIMIT + 1)), "longer than 20 bytes"),
        (captured(media=PROTOBUF), "application/vnd.kubernetes.protobuf"),
        (
            captured(media=MediaType(b"application/json", b"br")),
            "application/json br",
        ),
        (captured(media=TEXT), ""),
    ],
    ids=["malformed", "empty", "too long", "protobuf", "unknown encoding", "no object"],
)
def test_omission_reason_says_why_an_object_is_missing(body: CapturedBody, reason: str) -> None:
    assert body.read() is None
    assert body.omission_reason == reason


@pytest.mark.parametrize(
    ("level", "method", "target", "is_captured"),
    [
        (Level.METADATA, b"POST", PODS, True),
        (Level.METADATA, b"PUT", PODS + b"/p", True),
        (Level.METADATA, b"PATCH", PODS + b"/p", False),
        (Level.METADATA, b"DELETE", PODS + b"/p", False),
        (Level.REQUEST, b"PATCH", PODS + b"/p", True),
        (Level.REQUEST_RESPONSE, b"DELETE", PODS + b"/p", True),
        (Level.REQUEST_RESPONSE, b"POST", PODS + b"/p/exec", False),
        (Level.REQUEST_RESPONSE, b"POST", PODS + b"/p/proxy/a", False),
        (Level.REQUEST_RESPONSE, b"POST", b"/healthz", False),
    ],
    ids=str,
)
def test_request_body_is_captured_if_recorded_or_if_it_names_the_object(
    level: Level, method: bytes, target: bytes, *, is_captured: bool
) -> None:
    head = RequestHead(method, target, 1, HeaderList(JSON_HEADERS), CHUNKED, keep_alive=True)

    body = capture_request_body(
        RequestAuditConfig(level), head, parse_request_info(method, target), limit=LIMIT
    )

    assert (body is not None) is is_captured
    assert body is None or body.media == JSON


@pytest.mark.parametrize(
    ("payload", "headers", "is_captured"),
    [
        (STATUS, JSON_HEADERS, True),
        (b"", JSON_HEADERS, True),
        (POD, JSON_HEADERS, False),
        (STATUS, PROTOBUF_HEADERS, False),
    ],
    ids=["status", "nothing yet", "other kind", "protobuf"],
)
def test_only_what_may_be_a_status_is_captured_of_other_responses(
    payload: bytes, headers: list[Header], *, is_captured: bool
) -> None:
    body = capture_response_body(headers, payload, is_whole=False, limit=100)

    assert (body is not None) is is_captured


def test_any_object_is_captured_of_a_response_that_is_recorded() -> None:
    pod = capture_response_body(JSON_HEADERS, POD, is_whole=True, limit=LIMIT)
    other = capture_response_body(PROTOBUF_HEADERS, b"k8s\x00", is_whole=True, limit=LIMIT)

    assert pod is not None
    assert other is not None
    read = pod.read()
    assert read is not None
    assert read.text == POD.decode()
    # Bytes that cannot be recorded are not kept.
    assert other.is_empty
    assert other.omission_reason == "application/vnd.kubernetes.protobuf"


class Receiver:
    """Records every call, and ends early only if allowed."""

    def __init__(self, *, ends_early: bool) -> None:
        self.calls: list[object] = []
        self._ends_early = ends_early

    def request_data(self, payload: bytes) -> None:
        self.calls.append(payload)

    def request_ended(self) -> None:
        self.calls.append("ended")

    def request_failed(self, error: StatusError) -> None:
        self.calls.append(error)

    def finish_early(self) -> bool:
        self.calls.append("early")
        return self._ends_early

    def client_disconnected(self) -> None:
        self.calls.append("disconnected")

    def pause_response(self) -> None:
        self.calls.append("pause")

    def resume_response(self) -> None:
        self.calls.append("resume")


@pytest.mark.parametrize("ends_early", [True, False])
def test_capturing_receiver_forwards_every_call_unchanged(*, ends_early: bool) -> None:
    receiver, error = Receiver(ends_early=ends_early), BadRequest("malformed")
    capturing = CapturingReceiver(receiver, captured())

    capturing.request_data(b"a")
    capturing.pause_response()
    capturing.resume_response()
    capturing.request_ended()
    capturing.request_failed(error)
    capturing.client_disconnected()

    assert capturing.finish_early() is ends_early
    assert receiver.calls == [b"a", "pause", "resume", "ended", error, "disconnected", "early"]


def test_capturing_receiver_forwards_a_body_that_is_too_long_to_capture() -> None:
    receiver, body = Receiver(ends_early=False), captured()
    capturing = CapturingReceiver(receiver, body)

    for _ in range(3):
        capturing.request_data(b"1" * LIMIT)

    assert receiver.calls == [b"1" * LIMIT] * 3
    assert body.is_too_long
