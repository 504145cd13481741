import itertools
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

from proxy.audit.context import AuditContext, RequestRecorder
from proxy.audit.event_writer import write_unremarkable_event
from proxy.audit.request_record import RequestTelemetry
from proxy.audit.state import AuditState
from proxy.core.audit.annotations import DOMAIN
from proxy.core.audit.event import Stage
from proxy.core.audit.limits import EventLimits
from proxy.core.audit.policy import AuditPolicy, Level, PolicyRule
from proxy.core.errors import (
    BadGateway,
    BadRequest,
    Forbidden,
    InternalError,
    ProxyCredentialRejected,
    RequestInfoError,
    StatusError,
    Unauthorized,
)
from proxy.core.http.headers import HeaderList
from proxy.core.http.status import status_body
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import AuthorizationResult, permit_self
from proxy.core.request_cache import RequestCache, RequestResults
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo
from proxy.telemetry.metrics.requests import RequestMetrics
from proxy.telemetry.tracing import Tracing
from proxy.wire.exchange import ExchangeObserver, ExchangeOutcome, Peer
from proxy.wire.http1.body import NO_BODY, BodyFraming, BodyKind
from proxy.wire.http1.message import RequestHead
from tests.core.audit.test_event import impersonation
from tests.support.clock import nanoseconds

BOB = Caller(UserInfo("bob", groups=("dev",)))
HEADERS = HeaderList([(b"User-Agent", b"kubectl"), (b"Authorization", b"Bearer SECRET")])
JSON = [(b"Content-Type", b"application/json")]
GET = RequestHead(b"GET", b"/api/v1/pods?limit=5", 1, HEADERS, NO_BODY, keep_alive=True)
WATCH = GET._replace(target=b"/api/v1/pods?watch=1")
POST = GET._replace(
    method=b"POST",
    target=b"/api/v1/namespaces/n/pods",
    framing=BodyFraming(BodyKind.LENGTH, 10),
)
LIMIT = 100
Event = dict[str, Any]


class Clock:
    def __init__(self) -> None:
        self.now = nanoseconds(datetime(2026, 11, 16, 4, 0, tzinfo=UTC))

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now


class Lines:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)

    @property
    def events(self) -> list[Event]:
        assert all(line.endswith(b"}\n") and line.count(b"\n") == 1 for line in self.written)
        return [json.loads(line) for line in self.written]

    @property
    def stages(self) -> list[str]:
        return [event["stage"] for event in self.events]


class Body:
    """Takes a request's body, and knows all that it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def request_data(self, payload: bytes) -> None:
        self.told.append(payload)

    def request_ended(self) -> None:
        self.told.append("ended")

    def request_failed(self, error: StatusError) -> None:
        self.told.append(error)

    def finish_early(self) -> bool:
        self.told.append("early")
        return True

    def client_disconnected(self) -> None:
        self.told.append("gone")

    def pause_response(self) -> None:
        self.told.append("pause")

    def resume_response(self) -> None:
        self.told.append("resume")


class Desk:
    """A recorder by one level, and its lines."""

    def __init__(
        self,
        level: Level = Level.METADATA,
        *,
        omit: Sequence[Stage] = (),
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.lines = Lines()
        rule = PolicyRule(level, omit_stages=frozenset(omit))
        self.state = AuditState(self.lines, AuditPolicy([rule]), body_bytes=LIMIT)
        metrics = RequestMetrics(CollectorRegistry())
        self.telemetry = RequestTelemetry(metrics, Clock(), clock=clock)
        self._recorder = RequestRecorder(self.telemetry, self.state)

    def opened(self, request: RequestHead = GET) -> AuditContext:
        record = self._recorder.begin(request, Peer("10.1.2.3"), b"id-1")
        record.set_request_info(parse_request_info(request.method, request.target))
        return record

    def admitted(self, request: RequestHead = GET) -> AuditContext:
        record = self.opened(request)
        record.set_caller(BOB)
        record.set_permit(permit_self(BOB))
        return record


def observer(record: AuditContext) -> ExchangeObserver:
    assert record.observer is not None
    return record.observer


def answer(
    record: AuditContext, status: int = 200, body: bytes = b"", headers: Sequence[Any] = JSON
) -> None:
    """Answer in one piece, and end well."""
    if observer(record).response_started(status, headers, b""):
        observer(record).response_data(body)
    record.finish(ExchangeOutcome(status, len(body), is_complete=True))


def refuse(record: AuditContext, error: StatusError) -> None:
    record.set_error(error)
    answer(record, error.code, status_body(error))


def test_a_request_leaves_an_event_when_it_comes_and_when_it_is_over() -> None:
    desk = Desk()

    answer(desk.admitted())

    first, last = desk.lines.events
    assert (first["stage"], last["stage"]) == ("RequestReceived", "ResponseComplete")
    assert first["stageTimestamp"] == first["requestReceivedTimestamp"]
    assert last["requestReceivedTimestamp"] < last["stageTimestamp"]
    assert {"responseStatus", "annotations"}.isdisjoint(first)
    assert last["responseStatus"] == {"metadata": {}, "code": 200}
    for event in (first, last):
        assert (event["auditID"], event["verb"]) == ("id-1", "list")
        assert event["user"] == {"username": "bob", "groups": ["dev"]}
        assert (event["sourceIPs"], event["userAgent"]) == (["10.1.2.3"], "kubectl")
        assert "impersonatedUser" not in event


def test_the_caller_stays_the_user_whoever_acts() -> None:
    desk = Desk()
    record = desk.opened()
    record.set_caller(BOB)
    record.add_reviews(2)
    record.set_permit(impersonation(ImpersonationMode.USER_INFO))

    answer(record)

    first, last = desk.lines.events
    assert "impersonatedUser" not in first
    assert last["user"]["username"] == "bob"
    assert last["impersonatedUser"]["username"] == "alice"
    assert last["authenticationMetadata"]["impersonationConstraint"] == "impersonate:user-info"
    told = last["annotations"]
    assert (told[f"{DOMAIN}/cache"], told[f"{DOMAIN}/reviews"]) == ("miss", "2")


def test_what_lasts_leaves_an_event_when_its_answer_begins() -> None:
    desk = Desk()
    record = desk.admitted(WATCH)

    observer(record).response_started(200, JSON, b'{"type":"ADDED"}')
    begun = desk.lines.stages
    record.finish(ExchangeOutcome(200, 100, is_complete=True))

    assert begun == ["RequestReceived", "ResponseStarted"]
    assert desk.lines.stages == [*begun, "ResponseComplete"]
    assert desk.lines.events[1]["responseStatus"] == {"metadata": {}, "code": 200}


def test_a_tunnel_leaves_an_event_when_it_opens_whatever_it_is_to() -> None:
    desk = Desk()
    record = desk.admitted(GET._replace(target=b"/apis/x.y/v1/namespaces/n/machines/m/console"))

    observer(record).response_started(101, [], b"")
    record.finish(ExchangeOutcome(101, 5, is_complete=False))

    assert desk.lines.stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert "kube-understudy.io/incomplete" not in desk.lines.events[2]["annotations"]


def test_a_refusal_of_what_lasts_is_told_in_both_events() -> None:
    desk = Desk()
    record = desk.opened(WATCH)
    record.set_caller(BOB)

    refuse(record, Forbidden("no", details={"kind": "pods"}))

    _, started, complete = desk.lines.events
    assert started["responseStatus"] == complete["responseStatus"]
    assert started["responseStatus"]["message"] == "no"
    assert started["stageTimestamp"] < complete["stageTimestamp"]


@pytest.mark.parametrize("error", [Unauthorized(), BadRequest("timeout")])
def test_what_is_answered_before_a_login_is_one_event_of_nobody(error: StatusError) -> None:
    desk = Desk()

    refuse(desk.opened(WATCH), error)

    (event,) = desk.lines.events
    assert (event["stage"], event["user"]) == ("ResponseStarted", {})
    assert event["responseStatus"]["message"] == error.message


def test_a_bug_of_ours_is_a_panic_without_its_insides() -> None:
    desk = Desk()

    refuse(desk.admitted(), InternalError("an internal error occurred"))

    assert desk.lines.stages == ["RequestReceived", "Panic"]
    assert desk.lines.events[1]["responseStatus"] == {
        "metadata": {}, "status": "Failure", "message": "an internal error occurred",
        "reason": "InternalError", "code": 500,
    }  # fmt: skip


def test_a_bug_before_a_login_is_a_panic_too() -> None:
    desk = Desk()

    refuse(desk.opened(), InternalError("an internal error occurred"))

    assert desk.lines.stages == ["Panic"]


@pytest.mark.parametrize(
    ("omitted", "left"),
    [
        (Stage.REQUEST_RECEIVED, ["ResponseStarted", "ResponseComplete"]),
        (Stage.RESPONSE_STARTED, ["RequestReceived", "ResponseComplete"]),
        (Stage.RESPONSE_COMPLETE, ["RequestReceived", "ResponseStarted"]),
    ],
)
def test_omitted_stages_leave_nothing(omitted: Stage, left: list[str]) -> None:
    desk = Desk(omit=[omitted])

    answer(desk.admitted(WATCH))

    assert desk.lines.stages == left


def test_an_omitted_panic_leaves_nothing() -> None:
    desk = Desk(omit=[Stage.PANIC, Stage.RESPONSE_STARTED])

    refuse(desk.opened(), InternalError("x"))
    refuse(desk.opened(), Unauthorized())

    assert desk.lines.stages == []


def test_level_none_is_silent_and_hears_nothing() -> None:
    desk, body = Desk(Level.NONE), Body()
    record = desk.admitted(POST)

    assert observer(record).tee(body) is body
    assert not observer(record).response_started(500, JSON, b"{}")
    record.finish(ExchangeOutcome(500, 2, is_complete=True))
    refuse(desk.opened(), Unauthorized())

    assert desk.lines.stages == []


def test_a_request_that_cannot_be_read_leaves_no_event_as_natively(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    record = desk.opened()
    record.set_error(RequestInfoError("cannot be read"))

    with caplog.at_level(logging.INFO):
        record.finish(ExchangeOutcome(500, 10, is_complete=True))

    assert desk.lines.stages == []
    assert len(caplog.records) == 1


def test_what_we_never_forward_is_recorded_as_far_as_it_is_known() -> None:
    desk = Desk()
    record = desk._recorder.begin(GET._replace(target=b"http://x/<y>"), Peer("10.1.2.3"), b"a<b")

    refuse(record, BadRequest("only origin-form"))

    (event,) = desk.lines.events
    assert (event["verb"], event["auditID"]) == ("get", "a<b")
    assert "objectRef" not in event


def send(record: AuditContext, *pieces: bytes) -> Body:
    body = Body()
    receiver = observer(record).tee(body)
    for piece in pieces:
        receiver.request_data(piece)
    receiver.request_ended()
    assert body.told == [*pieces, "ended"]
    return body


@pytest.mark.parametrize("level", [Level.METADATA, Level.REQUEST, Level.REQUEST_RESPONSE])
def test_bodies_are_recorded_as_far_as_the_level_says(level: Level) -> None:
    desk = Desk(level)
    record = desk.admitted(POST)

    send(record, b'{"metadata":', b'{"name":"p"}}\n')
    answer(record, 201, b'{"kind":"Pod"}\n')

    event = desk.lines.events[1]
    has_request, has_response = level is not Level.METADATA, level is Level.REQUEST_RESPONSE
    assert event["objectRef"]["name"] == "p"
    assert (event.get("requestObject") == {"metadata": {"name": "p"}}) == has_request
    assert (event.get("responseObject") == {"kind": "Pod"}) == has_response
    assert "requestObject" not in desk.lines.events[0]


@pytest.mark.parametrize("method", [b"PUT", b"PATCH"])
def test_managed_fields_are_left_out_but_not_of_a_patch(method: bytes) -> None:
    rule = PolicyRule(Level.REQUEST_RESPONSE, omit_managed_fields=True)
    desk = Desk()
    desk.state.policy = AuditPolicy([rule])
    record = desk.admitted(POST._replace(method=method, target=b"/api/v1/namespaces/n/pods/p"))
    body = b'{"metadata":{"managedFields":[]}}'

    send(record, body)
    answer(record, 200, body)

    event = desk.lines.events[1]
    assert ("managedFields" in event["requestObject"]["metadata"]) == (method == b"PATCH")
    assert "managedFields" not in event["responseObject"]["metadata"]


def test_a_status_of_the_cluster_is_copied_into_the_event() -> None:
    desk = Desk()
    record = desk.admitted()

    answer(record, 404, b'{"kind":"Status","status":"Failure","message":"gone","code":404}')

    assert desk.lines.events[1]["responseStatus"] == {
        "metadata": {}, "status": "Failure", "message": "gone", "code": 404,
    }  # fmt: skip


def test_an_answer_that_is_no_status_is_not_heard_for_metadata() -> None:
    record = Desk().admitted(POST)

    assert not observer(record).response_started(201, JSON, b'{"kind":"Pod"')
    assert not observer(record).response_started(404, [(b"Content-Type", b"text/plain")], b"404")
    assert observer(record).response_started(404, JSON, b'{"kind":"Status"')


@pytest.mark.parametrize(
    ("headers", "body", "note"),
    [
        (JSON, b'"' + b"x" * LIMIT + b'"', "not recorded: longer than 100 bytes"),
        (JSON, b"{nonsense", "not recorded: not JSON"),
        ([(b"Content-Type", b"application/cbor")], b"x", "not recorded: application/cbor"),
        ([(b"Content-Type", b"text/plain")], b"x", None),
        (JSON, b"", None),
    ],
    ids=["long", "nonsense", "cbor", "text", "empty"],
)
def test_a_body_that_is_not_recorded_is_noted(
    headers: list[tuple[bytes, bytes]], body: bytes, note: str | None
) -> None:
    desk = Desk(Level.REQUEST_RESPONSE)
    record = desk.admitted(POST._replace(headers=HeaderList((*HEADERS, *headers))))

    send(record, body)
    answer(record, 201, body, headers)

    event = desk.lines.events[1]
    assert {"requestObject", "responseObject"}.isdisjoint(event)
    for side in ("request", "response"):
        assert event["annotations"].get(f"kube-understudy.io/{side}-body") == note


def test_a_body_that_grows_beyond_the_limit_as_it_is_written_is_noted() -> None:
    desk = Desk(Level.REQUEST_RESPONSE)
    record = desk.admitted(POST)
    body = b'{"a":"' + b"\xff" * 60 + b'"}'

    send(record, body)
    answer(record, 201, body)

    event = desk.lines.events[1]
    assert {"requestObject", "responseObject"}.isdisjoint(event)
    for side in ("request", "response"):
        note = event["annotations"][f"kube-understudy.io/{side}-body"]
        assert note == "not recorded: longer than 100 bytes"


@pytest.mark.parametrize("value", ['"\\ud800"', "1e999"])
def test_no_body_can_keep_an_event_from_being_written(value: str) -> None:
    """Half a character is no text, and an infinite number no JSON; kube-apiserver takes the first.

    Either was an exception, and the event of a request that was carried out was lost.
    """
    desk = Desk()
    desk.state.policy = AuditPolicy([PolicyRule(Level.REQUEST_RESPONSE, omit_managed_fields=True)])
    sent = f'{{"a":{value},"metadata":{{"managedFields":[]}}}}'.encode()
    record = desk.admitted(POST)

    send(record, sent)
    answer(record, 201, sent)

    events = [json.loads(line, parse_constant=pytest.fail) for line in desk.lines.written]
    assert [event["stage"] for event in events] == ["RequestReceived", "ResponseComplete"]


@pytest.mark.parametrize("details", ["1e999", "[" * 900 + "]" * 900, '"\\ud800"'])
def test_no_status_can_keep_an_event_from_being_written(details: str) -> None:
    desk = Desk()
    desk.state.body_bytes = 4096
    record = desk.admitted()

    answer(
        record, 404, f'{{"kind":"Status","message":"gone","details":{{"a":{details}}}}}'.encode()
    )

    event = json.loads(desk.lines.written[-1], parse_constant=pytest.fail)
    assert event["responseStatus"]["message"] == "gone"


def test_a_cut_event_is_not_plain_and_is_counted_each_time() -> None:
    desk = Desk(omit=[Stage.REQUEST_RECEIVED])
    times: list[None] = []
    desk.state.when_truncated = lambda: times.append(None)
    desk.state.set_limits(EventLimits(uri_bytes=600))
    request = GET._replace(target=b"/api/v1/pods?x=" + b"y" * 1000, cache=RequestCache())

    for _ in range(3):
        answer(desk.admitted(request))
    answer(desk.admitted())

    *cut, whole = desk.lines.events
    assert len(times) == len(cut) == 3
    for event in cut:
        assert event["requestURI"].endswith("...TRUNCATED")
        assert event["annotations"]["audit.k8s.io/truncated"] == "true"
    assert "audit.k8s.io/truncated" not in whole["annotations"]


def test_new_limits_count_for_heads_that_came_before() -> None:
    desk = Desk(omit=[Stage.REQUEST_RECEIVED])
    request = GET._replace(target=b"/api/v1/pods?x=" + b"y" * 400)

    answer(desk.admitted(request))
    desk.state.set_limits(EventLimits(uri_bytes=300))
    answer(desk.admitted(request))

    whole, cut = (event["requestURI"] for event in desk.lines.events)
    assert (len(whole), len(cut)) == (415, 300)


def test_new_limits_invalidate_the_event_template_of_equal_requests() -> None:
    audited = Desk(omit=[Stage.REQUEST_RECEIVED])
    request_info = parse_request_info(GET.method, b"/api/v1/pods")
    permit, cache = permit_self(BOB), RequestCache()
    cache.results = RequestResults(
        None, request_info, AuthenticationResult(BOB), AuthorizationResult(permit)
    )
    request = GET._replace(target=b"/api/v1/pods?x=" + b"y" * 400, cache=cache)

    for limit in (1000, 300):
        audited.state.set_limits(EventLimits(uri_bytes=limit))
        for _ in range(2):
            record = audited.opened(request)
            record.set_request_info(request_info)
            record.set_caller(BOB)
            record.set_permit(permit)
            answer(record)

    assert [len(event["requestURI"]) for event in audited.lines.events] == [415, 415, 300, 300]


def test_a_refused_body_is_nobodys_business() -> None:
    desk = Desk(Level.REQUEST)
    record = desk.admitted(POST)

    send(record, b'{"metadata":{"name":"p"}}')
    refuse(record, BadGateway("the API server broke off the connection"))

    event = desk.lines.events[1]
    assert "requestObject" not in event
    assert "name" not in event["objectRef"]


def test_an_answer_that_breaks_off_is_recorded_as_it_was_sent() -> None:
    desk = Desk()
    left, broken = desk.admitted(), desk.admitted()

    observer(left).response_started(200, JSON, b"{")
    left.finish(ExchangeOutcome(200, 1, is_complete=False))
    observer(broken).response_started(200, JSON, b"{")
    broken.set_error(BadGateway("it broke"))
    broken.finish(ExchangeOutcome(200, 1, is_complete=False))

    notes = [
        (event["responseStatus"], event["annotations"]["kube-understudy.io/incomplete"])
        for event in desk.lines.events
        if event["stage"] == "ResponseComplete"
    ]
    plain = {"metadata": {}, "code": 200}
    assert notes == [(plain, "the client disconnected"), (plain, "it broke")]


def test_a_client_that_left_before_any_answer_is_told_in_the_native_words() -> None:
    desk = Desk()

    desk.admitted().finish(ExchangeOutcome(0, 0, is_complete=False))

    event = desk.lines.events[1]
    assert event["responseStatus"]["message"] == "Connection closed early"
    assert event["annotations"]["kube-understudy.io/incomplete"] == "the client disconnected"
    assert "kube-understudy.io/upstream-code" not in event["annotations"]


def test_what_the_cluster_had_answered_is_told_where_the_client_is_told_otherwise() -> None:
    desk = Desk()

    refuse(desk.admitted(), ProxyCredentialRejected("the API server does not accept us"))
    refuse(desk.admitted(), BadGateway("it broke off"))

    codes = [
        (event["responseStatus"]["code"], event["annotations"].get(f"{DOMAIN}/upstream-code"))
        for event in desk.lines.events
        if event["stage"] == "ResponseComplete"
    ]
    assert codes == [(503, "401"), (502, None)]


def test_a_new_policy_counts_from_the_next_login_on() -> None:
    desk = Desk()
    begun = desk.admitted()

    desk.state.policy = AuditPolicy([PolicyRule(Level.NONE)])
    answer(begun)
    answer(desk.admitted())

    assert desk.lines.stages == ["RequestReceived", "ResponseComplete"]


@pytest.mark.parametrize("mode", [None, ImpersonationMode.USER_INFO, ImpersonationMode.LEGACY])
def test_the_quick_way_writes_what_the_thorough_one_writes(
    mode: ImpersonationMode | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, thorough = Desk(), Desk()
    permit = permit_self(BOB) if mode is None else impersonation(mode)
    ways: list[bool] = []

    def note(*arguments: Any, **keywords: Any) -> bool:
        ways.append(write_unremarkable_event(*arguments, **keywords))
        return ways[-1]

    for desk, way in ((quick, note), (thorough, lambda *_, **__: False)):
        monkeypatch.setattr("proxy.audit.context.write_unremarkable_event", way)
        record = desk.opened()
        record.set_caller(BOB)
        record.set_permit(permit)
        observer(record).response_started(200, JSON, b"{}")
        record.finish(ExchangeOutcome(200, 5, is_complete=True))

    assert ways == [True]
    assert quick.lines.written == thorough.lines.written


def test_no_credential_reaches_an_event() -> None:
    desk = Desk(Level.REQUEST_RESPONSE)

    answer(desk.admitted(), 200, b"{}")

    assert b"SECRET" not in b"".join(desk.lines.written)


def test_whoever_overhears_passes_everything_on() -> None:
    record, body = Desk(Level.REQUEST).admitted(POST), Body()
    receiver = observer(record).tee(body)
    error = BadRequest("x")

    receiver.pause_response()
    receiver.resume_response()
    receiver.request_failed(error)
    receiver.client_disconnected()

    assert receiver is not body
    assert receiver.finish_early()
    assert body.told == ["pause", "resume", error, "gone", "early"]


def test_every_event_of_a_watch_tells_where_it_came_from() -> None:
    desk = Desk()

    answer(desk.admitted(WATCH))

    assert desk.lines.stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert [event["userAgent"] for event in desk.lines.events] == ["kubectl"] * 3


def test_permitted_watch_retains_neither_token_nor_cache() -> None:
    record = Desk().admitted(WATCH._replace(cache=RequestCache()))._record

    assert record.request.headers == ((b"User-Agent", b"kubectl"),)
    assert record.request.target == WATCH.target
    assert record.request.cache is None


def test_permitted_watch_that_is_not_recorded_retains_no_head() -> None:
    record = Desk(Level.NONE).admitted(WATCH)._record

    assert record.request.headers == ()
    assert record.request.target == b""


def test_long_running_request_with_a_body_keeps_its_media_type() -> None:
    target = b"/api/v1/namespaces/n/services/s/proxy"

    record = Desk().admitted(POST._replace(target=target))._record

    assert record.request.headers == HEADERS


def test_traced_watch_keeps_the_head_that_identifies_its_span() -> None:
    traced = Desk(Level.NONE)
    traced.telemetry.tracing = Tracing(TracerProvider())

    assert traced.admitted(WATCH)._record.request is WATCH


def test_slow_request_has_latencies_although_its_decision_was_cached() -> None:
    slow = Desk(clock=(0.3 * turn for turn in itertools.count()).__next__)
    record = slow.admitted()
    record._record.received_at -= 600_000_000

    record.finish(ExchangeOutcome(200, 5, is_complete=True))

    annotations = slow.lines.events[-1]["annotations"]
    assert annotations["apiserver.latency.k8s.io/authentication"] == "300ms"
    assert annotations["apiserver.latency.k8s.io/total"].startswith("60")


def test_short_request_keeps_its_head() -> None:
    assert Desk().admitted(GET)._record.request is GET
