import json
import logging
from datetime import UTC, datetime, timedelta

import pytest

from proxy.audit.recorder import Recorder, Trail
from proxy.core.action import parse_action
from proxy.core.admission import admit_self
from proxy.core.errors import Forbidden, UnreadableRequest
from proxy.core.header_lines import HeaderLines
from proxy.core.identity import Caller, Identity
from proxy.wire.body import NO_BODY
from proxy.wire.exchange import Outcome
from proxy.wire.head import RequestHead
from proxy.wire.peer import Peer

BOB = Caller(Identity("bob", groups=("dev",)))
REQUEST = RequestHead(
    b"GET",
    b"/api/v1/pods?limit=5",
    1,
    HeaderLines([(b"User-Agent", b"kubectl"), (b"Authorization", b"Bearer SECRET")]),
    NO_BODY,
    keep_alive=True,
)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 16, 4, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=250)
        return self.now


class Lines:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)


def opened(lines: Lines | None, audit_id: bytes | None = b"id-1") -> Trail:
    return Recorder(Clock(), lines).open(REQUEST, Peer("10.1.2.3"), audit_id)


def test_a_request_leaves_one_event_with_what_became_known() -> None:
    lines = Lines()
    trail = opened(lines)
    trail.acts(parse_action(REQUEST.method, REQUEST.target))
    trail.is_called_by(BOB)
    trail.is_admitted(admit_self(BOB))

    trail.ended(Outcome(200, 85, is_complete=True))

    (line,) = lines.written
    event = json.loads(line)
    assert event["auditID"] == "id-1"
    assert (event["verb"], event["objectRef"]["resource"]) == ("list", "pods")
    assert event["user"] == {"username": "bob", "groups": ["dev"]}
    assert "impersonatedUser" not in event
    assert (event["sourceIPs"], event["userAgent"]) == (["10.1.2.3"], "kubectl")
    assert event["responseStatus"] == {"metadata": {}, "code": 200}
    assert event["requestReceivedTimestamp"] < event["stageTimestamp"]


def test_a_refusal_is_told_in_the_event_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines()
    trail = opened(lines)
    trail.is_called_by(BOB)
    trail.is_refused(Forbidden("no", details={}))

    with caplog.at_level(logging.INFO):
        trail.ended(Outcome(403, 10, is_complete=True))

    assert json.loads(lines.written[0])["responseStatus"]["message"] == "no"
    assert vars(caplog.records[0])["understudy_fields"]["refusal"] == "no"


def test_without_an_id_of_the_client_each_request_gets_its_own() -> None:
    first, second = opened(None, None), opened(None, None)

    assert first.audit_id != second.audit_id
    assert len(first.audit_id) == 36


def test_no_credential_reaches_the_trail(caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines()
    trail = opened(lines)

    with caplog.at_level(logging.DEBUG):
        trail.ended(Outcome(200, 0, is_complete=True))

    everything = b"".join(lines.written).decode() + repr([vars(one) for one in caplog.records])
    assert "SECRET" not in everything


def test_nothing_is_logged_below_the_chosen_level(caplog: pytest.LogCaptureFixture) -> None:
    trail = opened(None)

    with caplog.at_level(logging.WARNING):
        trail.ended(Outcome(200, 0, is_complete=True))

    assert caplog.records == []


def test_a_request_that_cannot_be_read_leaves_no_event_as_natively(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = Lines()
    trail = opened(lines)
    trail.is_refused(UnreadableRequest("cannot be read"))

    with caplog.at_level(logging.INFO):
        trail.ended(Outcome(500, 10, is_complete=True))

    assert lines.written == []
    assert len(caplog.records) == 1
