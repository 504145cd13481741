import io
import itertools
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from proxy.audit.context import AuditContext, RequestRecorder
from proxy.audit.request_record import RequestTelemetry
from proxy.core.errors import Forbidden, RequestInfoError, StatusError
from proxy.core.http.headers import HeaderList
from proxy.core.impersonation.permit import AuthorizationResult, Permit, permit_self
from proxy.core.request_cache import RequestCache, RequestResults
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo
from proxy.telemetry.logs import configure_logs
from proxy.telemetry.metrics.requests import RequestMetrics
from proxy.wire.exchange import ExchangeOutcome, Peer
from proxy.wire.http1.body import NO_BODY
from proxy.wire.http1.message import RequestHead
from tests.support.clock import nanoseconds
from tests.support.restored_logging import restored_logging

BOB = Caller(UserInfo("bob", groups=("dev",)))
REQUEST = RequestHead(
    b"GET",
    b"/api/v1/pods?limit=5",
    1,
    HeaderList([(b"User-Agent", b"kubectl"), (b"Authorization", b"Bearer SECRET")]),
    NO_BODY,
    keep_alive=True,
)


class Clock:
    def __init__(self) -> None:
        self.now = nanoseconds(datetime(2026, 11, 16, 4, 0, tzinfo=UTC))

    def __call__(self) -> int:
        self.now += 250_000_000
        return self.now


def seconds() -> Callable[[], float]:
    """Return a clock that goes on by a quarter each time."""
    return (0.25 * turn for turn in itertools.count()).__next__


def new_recorder(
    registry: CollectorRegistry | None = None, *, wall_clock: Clock | None = None
) -> RequestRecorder:
    metrics = RequestMetrics(registry or CollectorRegistry())
    telemetry = RequestTelemetry(metrics, wall_clock or Clock(), clock=seconds())
    return RequestRecorder(telemetry, None)


def opened(audit_id: bytes | None = b"id-1") -> AuditContext:
    return new_recorder().begin(REQUEST, Peer("10.1.2.3"), audit_id)


def test_a_request_leaves_one_line_with_what_became_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request_record = opened()
    request_record.set_request_info(parse_request_info(REQUEST.method, REQUEST.target))
    request_record.set_caller(BOB)
    request_record.add_reviews(3)
    request_record.set_permit(permit_self(BOB))

    with caplog.at_level(logging.INFO):
        request_record.finish(ExchangeOutcome(200, 85, is_complete=True))

    (record,) = caplog.records
    line = vars(record)["understudy_fields"]
    assert (line["audit_id"], line["caller"], line["verb"]) == ("id-1", "bob", "list")
    assert (line["code"], line["bytes"], line["seconds"]) == (200, 85, 0.75)
    durations = ("authentication_seconds", "decision_seconds", "upstream_seconds")
    assert [line[name] for name in durations] == [0.25, 0.25, 0.25]
    assert request_record.observer is None


def test_a_refusal_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    record = opened()
    record.set_caller(BOB)
    record.set_error(Forbidden("no", details={}))

    with caplog.at_level(logging.INFO):
        record.finish(ExchangeOutcome(403, 10, is_complete=True))

    assert vars(caplog.records[0])["understudy_fields"]["error"] == "no"


def test_without_an_id_of_the_client_each_request_gets_its_own() -> None:
    recorder = new_recorder()

    ids = {recorder.begin(REQUEST, Peer("10.1.2.3"), None).audit_id for _ in range(1000)}

    assert len(ids) == 1000
    assert all(UUID(audit_id.decode()).version == 4 for audit_id in ids)


def test_no_credential_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    record = opened()

    with caplog.at_level(logging.DEBUG):
        record.finish(ExchangeOutcome(200, 0, is_complete=True))

    assert "SECRET" not in repr([vars(one) for one in caplog.records])


def test_nothing_is_logged_below_the_chosen_level(caplog: pytest.LogCaptureFixture) -> None:
    record = opened()

    with caplog.at_level(logging.WARNING):
        record.finish(ExchangeOutcome(200, 0, is_complete=True))

    assert caplog.records == []


def refused_line(
    error: StatusError, request: RequestHead, caplog: pytest.LogCaptureFixture
) -> dict[str, object]:
    record = new_recorder().begin(request, Peer("10.1.2.3"), b"id-1")
    record.set_caller(BOB)
    record.set_error(error)
    with caplog.at_level(logging.INFO):
        record.finish(ExchangeOutcome(error.code, 10, is_complete=True))
    line: dict[str, object] = vars(caplog.records[0])["understudy_fields"]
    return line


def test_whom_a_refused_caller_wanted_to_be_is_told(caplog: pytest.LogCaptureFixture) -> None:
    wanted = [(b"impersonate-user", b"alice\xff" + b"x" * 1000)]
    request = REQUEST._replace(headers=HeaderList(wanted))

    line = refused_line(Forbidden("no"), request, caplog)

    assert line["impersonatedUser"] is None
    assert str(line["requestedUser"]).startswith("alice\ufffdxxx")
    assert len(str(line["requestedUser"])) == 256
    # It was decided, and nobody was asked to carry it out.
    assert (line["authentication_seconds"], line["decision_seconds"]) == (0.25, 0.25)
    assert "upstream_seconds" not in line


def test_what_cannot_be_read_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    error = RequestInfoError("unable to determine kind from url, /api/v1/watch?token=SECRET")

    line = refused_line(error, REQUEST, caplog)

    assert line["error"] == "unreadable request"


def test_a_request_is_counted_once_whether_it_is_logged_or_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = CollectorRegistry()
    recorder = new_recorder(registry)
    served, tunnel, unread = (recorder.begin(REQUEST, Peer("10.1.2.3"), None) for _ in range(3))
    served.set_request_info(parse_request_info(b"GET", b"/api/v1/pods?watch=1"))
    tunnel.set_request_info(parse_request_info(b"GET", b"/apis/a.b/v1/machines/c/console"))
    served.set_caller(BOB)
    served.set_permit(permit_self(BOB))

    with caplog.at_level(logging.ERROR):
        served.finish(ExchangeOutcome(200, 85, is_complete=True))
        tunnel.finish(ExchangeOutcome(101, 85, is_complete=True))
        unread.set_error(Forbidden("no"))
        unread.finish(ExchangeOutcome(0, 0, is_complete=False))

    assert caplog.records == []
    assert samples(registry, "understudy_requests_total") == {
        ("watch", "200", "true"): 1.0,
        ("get", "101", "true"): 1.0,
        ("unreadable", "none", "false"): 1.0,
    }
    assert samples(registry, "understudy_requests_by_mode_total") == {
        ("self",): 1.0,
        ("none",): 2.0,
    }
    assert samples(registry, "understudy_request_errors_total") == {("forbidden",): 1.0}


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of its labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


NAMES = ["bob", 'b"o\\b', "bøb", "%s%d"]


@pytest.mark.parametrize("audit_id", [None, b"id-1", b'i"d\\'])
@pytest.mark.parametrize("name", NAMES)
def test_the_line_of_a_request_that_may_be_repeated_says_the_same(
    name: str, audit_id: bytes | None
) -> None:
    """It is written from what equal requests have in common; the other one field by field."""
    caller = Caller(UserInfo(name, groups=("dev",)))
    request_info = parse_request_info(REQUEST.method, REQUEST.target)
    told = []
    filled = RequestCache()
    filled.results = RequestResults(
        None, request_info, AuthenticationResult(caller), AuthorizationResult(ADMISSIONS[name])
    )
    for cache in (filled, None):
        stream = io.StringIO()
        request = REQUEST._replace(cache=cache)
        with restored_logging():
            configure_logs(style="json", level="info", stream=stream)
            for size in (85, 1_000_000):
                record = new_recorder().begin(request, Peer("10.1.2.3"), audit_id)
                record.set_request_info(request_info)
                record.set_caller(caller)
                record.set_permit(ADMISSIONS[name])
                record.finish(ExchangeOutcome(200, size, is_complete=True))
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        if audit_id is None:
            assert len({line.pop("audit_id") for line in lines}) == len(lines)
        told.append(lines)

    assert told[0] == told[1]
    assert [line["bytes"] for line in told[0]] == [85, 1_000_000]
    assert [line["caller"] for line in told[0]] == [name, name]


def test_line_of_another_permit_is_not_written_from_the_template() -> None:
    request_info = parse_request_info(REQUEST.method, REQUEST.target)
    first, second = (Permit(BOB, UserInfo(name)) for name in ("alice", "carol"))
    cache = RequestCache()
    cache.results = RequestResults(
        None, request_info, AuthenticationResult(BOB), AuthorizationResult(first)
    )
    stream = io.StringIO()

    with restored_logging():
        configure_logs(style="json", level="info", stream=stream)
        for permit in (first, first, second, first):
            record = new_recorder().begin(REQUEST._replace(cache=cache), Peer("10.1.2.3"), None)
            record.set_request_info(request_info)
            record.set_caller(BOB)
            record.set_permit(permit)
            record.finish(ExchangeOutcome(200, 85, is_complete=True))

    users = [json.loads(line)["impersonatedUser"] for line in stream.getvalue().splitlines()]
    assert users == ["alice", "alice", "carol", "alice"]


def test_members_are_cached_only_for_heads_that_were_forwarded() -> None:
    single, permit = RequestCache(), permit_self(BOB)

    record = new_recorder().begin(REQUEST._replace(cache=single), Peer("10.1.2.3"), None)
    record.set_caller(BOB)
    record.set_permit(permit)
    record.finish(ExchangeOutcome(200, 85, is_complete=True))

    assert single.access_log_template is None


@pytest.mark.parametrize(
    ("facts", "phases"),
    [
        (0, []),
        (1, ["authentication_seconds"]),
        (2, ["authentication_seconds", "decision_seconds"]),
        (3, ["authentication_seconds", "decision_seconds", "upstream_seconds"]),
    ],
)
def test_line_has_the_duration_of_each_phase_that_was_reached(
    facts: int, phases: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    record = opened()
    if facts >= 1:
        record.set_caller(BOB)
    if facts == 2:
        record.set_error(Forbidden("no"))
    if facts == 3:
        record.set_permit(permit_self(BOB))

    with caplog.at_level(logging.INFO):
        record.finish(ExchangeOutcome(0, 0, is_complete=False))

    line = vars(caplog.records[0])["understudy_fields"]
    assert [name for name in line if name.endswith("_seconds")] == phases
    assert {line[name] for name in phases} <= {0.25}
    assert line["complete"] is False


ADMISSIONS = {name: Permit(Caller(UserInfo(name)), UserInfo(name)) for name in NAMES}


@pytest.mark.parametrize("step_seconds", [-315_360_000, -3600, -1, 3600, 315_360_000])
def test_a_step_of_the_wall_clock_does_not_change_how_long_a_request_took(
    caplog: pytest.LogCaptureFixture, step_seconds: int
) -> None:
    clock = Clock()
    request_record = new_recorder(wall_clock=clock).begin(REQUEST, Peer("10.1.2.3"), b"id-1")
    request_record.set_request_info(parse_request_info(REQUEST.method, REQUEST.target))
    request_record.set_caller(BOB)
    request_record.set_permit(permit_self(BOB))
    clock.now += step_seconds * 1_000_000_000

    with caplog.at_level(logging.INFO):
        request_record.finish(ExchangeOutcome(200, 85, is_complete=True))

    (record,) = caplog.records
    assert vars(record)["understudy_fields"]["seconds"] == 0.75
