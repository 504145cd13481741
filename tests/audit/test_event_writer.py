import json
from dataclasses import replace
from typing import Any

import pytest

from proxy.audit.event_details import EventDetails
from proxy.audit.event_writer import write_event, write_unremarkable_event
from proxy.audit.request_record import RequestRecord
from proxy.audit.state import AuditState
from proxy.core.audit.annotations import ResponseOutcome
from proxy.core.audit.event import plain_response_text, quoted
from proxy.core.audit.limits import EventLimits
from proxy.core.audit.policy import AuditPolicy, Level, RequestAuditConfig
from proxy.core.errors import BadGateway
from proxy.core.http.headers import HeaderList
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import AuthorizationResult, Permit
from proxy.core.request_cache import RequestCache, RequestResults
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo
from proxy.wire.exchange import ExchangeOutcome, Peer
from proxy.wire.http1.body import NO_BODY
from proxy.wire.http1.message import RequestHead

BOB = Caller(UserInfo("bob", groups=("dev",)))
PERMIT = Permit(BOB, UserInfo("alice"), ImpersonationMode.USER_INFO)
METADATA = RequestAuditConfig(Level.METADATA)
OUTCOME = ExchangeOutcome(200, 85, is_complete=True)
RECEIVED_AT, ENDED_AT = 1_800_000_000_000_000_000, 1_800_000_000_250_000_000
TARGET = b"/api/v1/pods?limit=5"


class Lines:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)


def new_state(lines: Lines) -> AuditState:
    return AuditState(lines, AuditPolicy([]), body_bytes=0)


def new_record(
    *,
    target: bytes = TARGET,
    agent: bytes = b"kubectl",
    permit: Permit = PERMIT,
    audit_id: bytes = b"id-1",
    cache: RequestCache | None = None,
) -> RequestRecord:
    headers = HeaderList([(b"User-Agent", agent)])
    request = RequestHead(b"GET", target, 1, headers, NO_BODY, keep_alive=True, cache=cache)
    record = RequestRecord(
        request, Peer("10.1.2.3"), audit_id, quoted(audit_id.decode()), 0.0, RECEIVED_AT
    )
    record.request_info = parse_request_info(b"GET", target)
    record.caller, record.permit = permit.caller, permit
    record.audit_config = METADATA
    return record


def filled_cache() -> RequestCache:
    """Return the cache of a head that was forwarded before."""
    cache, request_info = RequestCache(), parse_request_info(b"GET", TARGET)
    cache.results = RequestResults(
        None, request_info, AuthenticationResult(BOB), AuthorizationResult(PERMIT)
    )
    return cache


def write_fully(state: AuditState, record: RequestRecord, outcome: ExchangeOutcome) -> None:
    ending = ResponseOutcome(outcome.status, outcome.body_bytes)
    details = EventDetails(plain_response_text(outcome.status), outcome=ending)
    write_event(state, record, METADATA, "ResponseComplete", ENDED_AT, details)


ODD = ["bob", 'b"o\\b', "bøb", "%s%d{}", "a\0b", "<&>", "\U0001f600"]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
@pytest.mark.parametrize("mode", [None, ImpersonationMode.USER_INFO, ImpersonationMode.LEGACY])
def test_event_from_a_template_equals_the_event_of_the_full_writer(
    mode: ImpersonationMode | None, odd: str
) -> None:
    """The third event comes from the template that the second one has cached."""
    lines, cache = Lines(), filled_cache()
    state = new_state(lines)
    user = UserInfo(odd, groups=(odd,), extra=((odd, (odd,)),))
    permit = Permit(Caller(user), user if mode is None else UserInfo(odd), mode, warning=odd)

    def recorded() -> RequestRecord:
        target = b"/api/v1/pods?a=%00%25s%d"
        return new_record(target=target, agent=odd.encode(), permit=permit, cache=cache)

    for outcome in (OUTCOME, ExchangeOutcome(404, 1_000_000, is_complete=True)):
        lines.written.clear()
        write_fully(state, recorded(), outcome)
        for _ in range(2):
            assert write_unremarkable_event(state, recorded(), METADATA, outcome, ended_at=ENDED_AT)

        assert len(lines.written) == 3
        assert len(set(lines.written)) == 1
        assert json.loads(lines.written[0])["user"]["username"] == odd


def test_each_event_from_a_template_has_its_own_values() -> None:
    lines, cache = Lines(), filled_cache()
    state = new_state(lines)

    for number in (1, 2):
        record = new_record(audit_id=b'i"d-%d' % number, cache=cache)
        record.received_at += number * 1_000_000_000
        outcome = ExchangeOutcome(200 + number, number, is_complete=True)
        assert write_unremarkable_event(
            state, record, METADATA, outcome, ended_at=ENDED_AT + number * 1_000_000_000
        )

    first, second = map(json.loads, lines.written)
    assert [first["auditID"], second["auditID"]] == ['i"d-1', 'i"d-2']
    assert [first["responseStatus"]["code"], second["responseStatus"]["code"]] == [201, 202]
    assert second["requestReceivedTimestamp"] == "2027-01-15T08:00:02.000000Z"
    assert second["stageTimestamp"] == "2027-01-15T08:00:02.250000Z"
    sizes = [event["annotations"]["kube-understudy.io/response-bytes"] for event in (first, second)]
    assert sizes == ["1", "2"]


def test_template_is_cached_only_for_heads_that_were_forwarded() -> None:
    state, single, forwarded = new_state(Lines()), RequestCache(), filled_cache()

    for cache in (single, forwarded):
        record = new_record(cache=cache)
        assert write_unremarkable_event(state, record, METADATA, OUTCOME, ended_at=ENDED_AT)

    assert single.event_template is None
    assert forwarded.event_template is not None


def change_permit(state: AuditState, record: RequestRecord) -> RequestAuditConfig:
    record.permit = replace(PERMIT, user=UserInfo("carol"))
    return METADATA


def change_level(state: AuditState, record: RequestRecord) -> RequestAuditConfig:
    return RequestAuditConfig(Level.REQUEST)


def change_limits(state: AuditState, record: RequestRecord) -> RequestAuditConfig:
    state.set_limits(EventLimits(uri_bytes=4096))
    return METADATA


@pytest.mark.parametrize("change", [change_permit, change_level, change_limits])
def test_template_is_not_used_with_another_permit_level_or_set_of_limits(change: Any) -> None:
    lines, cache = Lines(), filled_cache()
    state, record = new_state(lines), new_record(cache=cache)
    assert write_unremarkable_event(state, record, METADATA, OUTCOME, ended_at=ENDED_AT)
    old = cache.event_template

    audit_config = change(state, record)
    assert write_unremarkable_event(state, record, audit_config, OUTCOME, ended_at=ENDED_AT)

    event = json.loads(lines.written[-1])
    assert cache.event_template is not old
    assert event["level"] == audit_config.level_text
    assert record.permit is not None
    assert event["impersonatedUser"]["username"] == record.permit.user.name


def with_error(record: RequestRecord) -> ExchangeOutcome:
    record.error = BadGateway("it broke")
    return OUTCOME


def with_reviews(record: RequestRecord) -> ExchangeOutcome:
    record.reviews = 1
    return OUTCOME


def without_permit(record: RequestRecord) -> ExchangeOutcome:
    record.permit = None
    return OUTCOME


def incomplete(record: RequestRecord) -> ExchangeOutcome:
    return ExchangeOutcome(200, 85, is_complete=False)


def tunnel(record: RequestRecord) -> ExchangeOutcome:
    return ExchangeOutcome(101, 85, is_complete=True)


@pytest.mark.parametrize("make", [with_error, with_reviews, without_permit, incomplete, tunnel])
def test_remarkable_request_has_no_event_from_a_template(make: Any) -> None:
    lines, record = Lines(), new_record(cache=filled_cache())
    outcome = make(record)

    is_written = write_unremarkable_event(
        new_state(lines), record, METADATA, outcome, ended_at=ENDED_AT
    )

    assert not is_written
    assert lines.written == []


def test_request_with_a_truncated_value_has_no_event_from_a_template() -> None:
    lines, cache = Lines(), filled_cache()
    state = new_state(lines)
    state.set_limits(EventLimits(uri_bytes=300))
    record = new_record(target=b"/api/v1/pods?x=" + b"y" * 400, cache=cache)

    assert not write_unremarkable_event(state, record, METADATA, OUTCOME, ended_at=ENDED_AT)

    assert lines.written == []
    assert cache.event_template is None
