import json
from typing import Any

import pytest

from proxy.audit.body_capture import BodyCapture
from proxy.audit.request_record import RequestRecord
from proxy.audit.state import AuditState
from proxy.core.audit.policy import AuditPolicy, Level, RequestAuditConfig
from proxy.core.http.headers import HeaderList
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo
from proxy.wire.exchange import Peer
from proxy.wire.http1.body import NO_BODY, BodyFraming, BodyKind
from proxy.wire.http1.message import RequestHead

JSON = [(b"Content-Type", b"application/json")]
TEXT = [(b"Content-Type", b"text/plain")]
LIST = b"/api/v1/pods"
WATCH = b"/api/v1/pods?watch=1"
EXEC = b"/api/v1/namespaces/n/pods/p/exec"
NOW = 1_800_000_000_000_000_000


class Lines:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)


def observed(
    level: Level | None, *, method: bytes = b"GET", target: bytes = LIST
) -> tuple[BodyCapture, Lines]:
    """Return the capture of a request; without a level, before its authentication."""
    framing = NO_BODY if method == b"GET" else BodyFraming(BodyKind.LENGTH, 10)
    request = RequestHead(method, target, 1, HeaderList(JSON), framing, keep_alive=True)
    record = RequestRecord(request, Peer("10.1.2.3"), b"id", '"id"', 0.0, NOW)
    record.request_info = parse_request_info(method, target)
    if level is not None:
        record.audit_config = RequestAuditConfig(level)
        record.caller = Caller(UserInfo("bob"))
    lines = Lines()
    state = AuditState(lines, AuditPolicy([]), body_bytes=100)
    return BodyCapture(state, record, lambda: NOW), lines


@pytest.mark.parametrize(
    ("level", "method", "status", "is_captured"),
    [
        (None, b"GET", 401, True),
        (Level.NONE, b"POST", 500, False),
        (Level.METADATA, b"GET", 200, False),
        (Level.METADATA, b"GET", 404, True),
        (Level.METADATA, b"POST", 201, True),
        (Level.REQUEST, b"GET", 200, False),
        (Level.REQUEST_RESPONSE, b"GET", 200, True),
    ],
)
def test_response_body_is_captured_if_recorded_or_maybe_a_status(
    level: Level | None, method: bytes, status: int, *, is_captured: bool
) -> None:
    capture, _ = observed(level, method=method)

    assert (status >= capture.captured_from_status) is is_captured
    assert capture.wants_response(status) is is_captured


def test_complete_long_running_response_is_observed_for_its_event() -> None:
    capture, lines = observed(Level.METADATA, target=WATCH)

    assert capture.wants_response(200)
    assert capture.captured_from_status > 200
    assert not capture.response_started(200, JSON, b"")
    assert [json.loads(line)["stage"] for line in lines.written] == ["ResponseStarted"]
    assert capture.is_empty


def test_observer_captures_nothing_of_a_request_that_is_not_recorded() -> None:
    capture, lines = observed(Level.NONE, method=b"POST", target=EXEC)
    receiver: Any = object()

    assert capture.tee(receiver) is receiver
    assert not capture.response_started(500, JSON, b'{"kind":"Status"}')
    assert lines.written == []
    assert capture.is_empty


def test_event_that_needs_the_body_is_written_once_it_is_complete() -> None:
    capture, lines = observed(Level.METADATA, method=b"GET", target=WATCH)
    config = RequestAuditConfig(Level.METADATA)
    assert capture.response_started(404, JSON, b'{"kind":"Status",')
    capture.response_data(b'"message":"gone"}')
    before = len(lines.written)

    capture.write_started(config, 404)
    capture.write_started(config, 404)

    (event,) = map(json.loads, lines.written)
    assert before == 0
    assert event["responseStatus"]["message"] == "gone"
    assert event["stageTimestamp"] == "2027-01-15T08:00:00.000000Z"


def test_response_started_is_written_once_if_the_body_cannot_be_recorded() -> None:
    """The body of another media type is known to be omitted, but is not awaited."""
    capture, lines = observed(Level.REQUEST_RESPONSE, method=b"POST", target=EXEC)

    assert not capture.response_started(404, TEXT, b"404 page not found")
    capture.write_started(RequestAuditConfig(Level.REQUEST_RESPONSE), 404)

    assert len(lines.written) == 1
