import itertools
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from proxy.audit.recorder import Recorder, Trail
from proxy.core.action import parse_action
from proxy.core.admission import admit_self
from proxy.core.errors import Forbidden
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


def seconds() -> Callable[[], float]:
    """Return a clock that goes on by a quarter each time."""
    return (0.25 * turn for turn in itertools.count()).__next__


def opened(audit_id: bytes | None = b"id-1") -> Trail:
    return Recorder(Clock(), clock=seconds()).open(REQUEST, Peer("10.1.2.3"), audit_id)


def test_a_request_leaves_one_line_with_what_became_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trail = opened()
    trail.acts(parse_action(REQUEST.method, REQUEST.target))
    trail.is_called_by(BOB)
    trail.is_reviewed(3)
    trail.is_admitted(admit_self(BOB))

    with caplog.at_level(logging.INFO):
        trail.ended(Outcome(200, 85, is_complete=True))

    (record,) = caplog.records
    line = vars(record)["understudy_fields"]
    assert (line["audit_id"], line["caller"], line["verb"]) == ("id-1", "bob", "list")
    assert (line["code"], line["bytes"], line["seconds"]) == (200, 85, 0.75)
    durations = ("authentication_seconds", "decision_seconds", "upstream_seconds")
    assert [line[name] for name in durations] == [0.25, 0.25, 0.25]
    assert trail.observer is None


def test_a_refusal_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    trail = opened()
    trail.is_called_by(BOB)
    trail.is_refused(Forbidden("no", details={}))

    with caplog.at_level(logging.INFO):
        trail.ended(Outcome(403, 10, is_complete=True))

    assert vars(caplog.records[0])["understudy_fields"]["refusal"] == "no"


def test_without_an_id_of_the_client_each_request_gets_its_own() -> None:
    recorder = Recorder(Clock())

    ids = {recorder.open(REQUEST, Peer("10.1.2.3"), None).audit_id for _ in range(1000)}

    assert len(ids) == 1000
    assert all(UUID(audit_id.decode()).version == 4 for audit_id in ids)


def test_no_credential_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    trail = opened()

    with caplog.at_level(logging.DEBUG):
        trail.ended(Outcome(200, 0, is_complete=True))

    assert "SECRET" not in repr([vars(one) for one in caplog.records])


def test_nothing_is_logged_below_the_chosen_level(caplog: pytest.LogCaptureFixture) -> None:
    trail = opened()

    with caplog.at_level(logging.WARNING):
        trail.ended(Outcome(200, 0, is_complete=True))

    assert caplog.records == []
