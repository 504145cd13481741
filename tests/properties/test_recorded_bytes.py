"""Whatever a request holds: its events are whole lines of JSON, one for each stage, and bounded.

Every field that a client, an authenticator or the API server fills in is drawn, short or long, of
plain and of odd characters. A mistake in one of the limits makes the size of an event depend on it.
"""

import io
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from proxy.audit.context import AuditContext, RequestRecorder
from proxy.audit.request_record import RequestTelemetry
from proxy.audit.state import AuditState
from proxy.core.audit.annotations import DOMAIN, read_event_cuts
from proxy.core.audit.limits import (
    ANNOTATION_BYTES,
    OBJECT_BYTES,
    WANTED_USER_BYTES,
    WRITTEN_AGENT_BYTES,
    EventLimits,
    ValueLimits,
)
from proxy.core.audit.policy import AuditPolicy, Level, PolicyRule
from proxy.core.errors import (
    BadRequest,
    Forbidden,
    StatusError,
    TooManyRequests,
    Unauthorized,
)
from proxy.core.gocompat.json import go_json
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.http.headers import HeaderList
from proxy.core.http.status import status_body
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.truncation import encoded_size, json_size
from proxy.core.userinfo import Caller, UserInfo, make_extra
from proxy.telemetry.logs import MAX_LINE_BYTES, configure_logs
from proxy.telemetry.metrics.requests import RequestMetrics
from proxy.wire.exchange import ExchangeOutcome, Peer
from proxy.wire.http1.body import NO_BODY, BodyFraming, BodyKind
from proxy.wire.http1.message import RequestHead
from tests.support.restored_logging import restored_logging

pytestmark = pytest.mark.timeout(240)  # many examples on a busy machine

LIMITS = EventLimits(uri_bytes=2048, user_bytes=4096, message_bytes=1500, unauthenticated_bytes=700)
BODY_BYTES = 3000
ODD = 'a<&"\\\x01\x7fé\u2028\ud83d\udcff\ufffd😀%/?'
JSON = (b"Content-Type", b"application/json")

texts = st.builds(
    lambda word, times: word * times,
    st.text(st.sampled_from(ODD), min_size=1, max_size=4),
    st.sampled_from([0, 1, 40, 300, 3000]),
)
raw: st.SearchStrategy[bytes] = texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
names: st.SearchStrategy[bytes] = raw.map(
    lambda name: name.replace(b"?", b"").replace(b"\x01", b"") or b"x"
)
# Nobody is admitted whose name is no text.
words = texts.map(lambda text: text.encode("utf-8", "replace").decode())
identities = st.builds(
    UserInfo,
    words.map(lambda name: name or "x"),
    words,
    st.lists(words, max_size=4).map(tuple),
    st.dictionaries(words, st.lists(words, max_size=2), max_size=3).map(make_extra),
)
refusals: st.SearchStrategy[StatusError] = st.one_of(
    st.builds(BadRequest, texts),
    st.builds(Unauthorized),
    st.builds(
        lambda text, name: Forbidden(text, details={"name": name, "kind": name}), texts, texts
    ),
    st.builds(lambda text: TooManyRequests(text, retry_after_seconds=1), texts),
)
numbers = st.sampled_from(["1", "1e999", "1e15", '"x"', "[" * 300 + "]" * 300])


@dataclass(frozen=True, slots=True)
class Exchange:
    """Everything that one request brings and meets."""

    method: bytes
    target: bytes
    agent: bytes
    media: bytes
    audit_id: bytes | None
    caller: UserInfo | None
    impersonated_user: UserInfo | None
    error: StatusError | None
    failed_check: str
    status: int
    answer: bytes
    body: bytes
    is_complete: bool


@st.composite
def targets(draw: st.DrawFn) -> bytes:
    name, query = draw(names), draw(raw)
    starts = [b"/api/v1/namespaces/", b"/apis/", b"/api/v1/pods/", b"/"]
    start: bytes = draw(st.sampled_from(starts))
    return start + name + b"/" + draw(names) + draw(st.sampled_from([b"", b"?"])) + query


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """Draw a Status or an object, whose parts may be anything."""
    kind = draw(st.sampled_from(["Status", "Pod"]))
    said = json.dumps(draw(texts))
    details = f'{{"name":{said},"causes":[{said}],"n":{draw(numbers)}}}'
    metadata = f'{{"name":{said},"managedFields":[],"n":{draw(numbers)}}}'
    return (
        f'{{"kind":"{kind}","message":{said},"reason":{said},"details":{details},'
        f'"metadata":{metadata}}}'
    ).encode()


exchanges = st.builds(
    Exchange,
    method=st.sampled_from([b"GET", b"POST", b"PUT", b"PATCH", b"DELETE"]),
    target=targets(),
    agent=raw,
    media=st.sampled_from([b"application/json", b"application/protobuf" + b"<" * 3000, b"text/x"]),
    audit_id=st.sampled_from([None, b"id-1", b"<" * 64, b'"' * 64]),
    caller=st.none() | identities,
    impersonated_user=st.none() | identities,
    error=st.none() | refusals,
    failed_check=texts,
    status=st.sampled_from([200, 201, 404, 403]),
    answer=objects() | raw,
    body=objects() | raw,
    is_complete=st.booleans(),
)


class Lines:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)


class Count:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def action_of(exchange: Exchange) -> RequestInfo | None:
    try:
        return parse_request_info(exchange.method, exchange.target)
    except StatusError:
        return None


def head_of(exchange: Exchange) -> RequestHead:
    framing = BodyFraming(BodyKind.LENGTH, len(exchange.body)) if exchange.body else NO_BODY
    headers = [(b"User-Agent", exchange.agent), (b"Content-Type", exchange.media)]
    if exchange.impersonated_user is not None:
        headers.append((b"Impersonate-User", exchange.impersonated_user.name.encode()))
    lines = HeaderList(headers)
    return RequestHead(exchange.method, exchange.target, 1, lines, framing, keep_alive=True)


def learn_who_calls(request_record: AuditContext, exchange: Exchange) -> None:
    """Tell a trail of the caller, and whom it becomes if it is not refused before that."""
    if exchange.caller is None:
        return
    caller = Caller(exchange.caller)
    request_record.set_caller(caller)
    if exchange.error is None or exchange.is_complete:
        mode = None if exchange.impersonated_user is None else ImpersonationMode.USER_INFO
        impersonated_user, warning = (
            exchange.impersonated_user or exchange.caller,
            exchange.failed_check or None,
        )
        request_record.set_permit(Permit(caller, impersonated_user, mode, warning=warning))


def record(exchange: Exchange, state: AuditState) -> None:
    """Tell a trail of the exchange, as the pipeline does."""
    metrics = RequestMetrics(CollectorRegistry())
    telemetry = RequestTelemetry(metrics, lambda: 1_800_000_000_000_000_000, clock=lambda: 0.0)
    recorder = RequestRecorder(telemetry, state)
    request_record = recorder.begin(head_of(exchange), Peer("fe80::1"), exchange.audit_id)
    if (request_info := action_of(exchange)) is not None:
        request_record.set_request_info(request_info)
    learn_who_calls(request_record, exchange)
    observer, error = request_record.observer, exchange.error
    assert observer is not None
    observer.tee(_Receiver()).request_data(exchange.body)
    status, body = exchange.status, exchange.answer
    if error is None and exchange.caller is None:
        error = Unauthorized()
    if error is not None:
        error.failed_check = exchange.failed_check
        request_record.set_error(error)
        status, body = error.code, status_body(error)
    if observer.response_started(status, [JSON], b""):
        observer.response_data(body)
    request_record.finish(ExchangeOutcome(status, len(body), is_complete=exchange.is_complete))


class _Receiver:
    """Takes a body and does nothing with it."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments: None


def rule(level: Level, *, strips: bool) -> PolicyRule:
    return PolicyRule(level, omit_managed_fields=strips)


rules = st.builds(rule, st.sampled_from(Level), strips=st.booleans())


@settings(max_examples=250)
@given(exchanges, rules)
def test_what_is_written_for_one_request_is_bounded(exchange: Exchange, rule: PolicyRule) -> None:
    lines, truncated, log, level = Lines(), Count(), io.StringIO(), rule.level
    state = AuditState(
        lines,
        AuditPolicy([rule]),
        body_bytes=BODY_BYTES,
        when_truncated=truncated,
    )
    state.set_limits(LIMITS)

    with restored_logging():
        configure_logs(style="json", level="debug", stream=log)
        record(exchange, state)

    events = [json.loads(line, parse_constant=pytest.fail) for line in lines.written]
    is_known = exchange.caller is not None
    assert len(log.getvalue()) <= MAX_LINE_BYTES
    assert len(log.getvalue().splitlines()) == 1
    most = LIMITS.max_authenticated_bytes if is_known else LIMITS.max_unauthenticated_bytes
    bodies = 0 if level is Level.METADATA else 2 * BODY_BYTES
    assert all(len(line) <= most + bodies for line in lines.written)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines.written)
    stages = [event["stage"] for event in events]
    wanted = ["RequestReceived", "ResponseComplete"] if is_known else ["ResponseStarted"]
    assert [stage for stage in stages if stage in wanted] == ([] if level is Level.NONE else wanted)
    for event in events:
        check_marks(event)
        check_sizes(event, LIMITS.authenticated if is_known else LIMITS.unauthenticated)
    assert truncated.times == sum("audit.k8s.io/truncated" in text_of(event) for event in events)


def text_of(event: dict[str, Any]) -> dict[str, str]:
    annotations: dict[str, str] = event.get("annotations", {})
    return annotations


def check_marks(event: dict[str, Any]) -> None:
    """Fail unless the event says that it was cut exactly where it was."""
    annotations = text_of(event)
    cuts = read_event_cuts(annotations)
    assert annotations.get("audit.k8s.io/truncated") == ("true" if cuts else None)
    places = {
        "requestURI": event["requestURI"],
        "user.username": event["user"].get("username", ""),
        "impersonatedUser.username": event.get("impersonatedUser", {}).get("username", ""),
        "objectRef": " ".join(event.get("objectRef", {}).values()),
    } | {
        f"annotations.{name.removeprefix(DOMAIN + '/')}": text
        for name, text in annotations.items()
        if name not in {"audit.k8s.io/truncated", f"{DOMAIN}/truncated", f"{DOMAIN}/wanted"}
    }
    for path, text in places.items():
        assert (TRUNCATION_MARKER in text) == (path in cuts), path


def check_sizes(event: dict[str, Any], limits: ValueLimits) -> None:
    """Fail if a value of an event is longer than its own limit, however short the others are."""
    most = {
        "requestURI": limits.uri,
        "user": limits.user,
        "impersonatedUser": limits.user,
        "userAgent": WRITTEN_AGENT_BYTES + len(TRUNCATION_MARKER),
        "objectRef": OBJECT_BYTES,
        # A message, and eight names beside it.
        "responseStatus": limits.message + OBJECT_BYTES,
    }
    quotes = 2
    for name, longest in most.items():
        assert encoded_size(go_json(event.get(name, ""))) <= longest + quotes, name
    for name, text in text_of(event).items():
        if name == f"{DOMAIN}/wanted":
            assert json_size(text) <= 2 * WANTED_USER_BYTES
        elif name != f"{DOMAIN}/truncated":
            assert json_size(text) <= ANNOTATION_BYTES, name
