import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from proxy.core.audit.event import (
    Stage,
    decision_text,
    event_line,
    go_duration,
    object_text,
    origin_text,
    quoted,
    request_text,
    response_text,
    source_ips,
)
from proxy.core.audit.users import user_text
from proxy.core.errors import (
    Forbidden,
    RequestInfoError,
    StatusError,
    TooManyRequests,
    Unauthorized,
)
from proxy.core.impersonation.checks import ImpersonationRules, plan_attempts
from proxy.core.impersonation.evaluation import Allowed, evaluate
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import Permit, permit_impersonation, permit_self
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.timestamps import TimestampFormatter
from proxy.core.userinfo import Caller, UserInfo, make_extra
from tests.core.play import play
from tests.support.clock import nanoseconds

BOB = Caller(UserInfo("bob", "7", ("dev",), make_extra({"b": ["2"], "a": ["1"]})))
TARGET = b"/apis/apps/v1/namespaces/n/deployments/d/scale?<x>"
GET_SCALE = parse_request_info(b"GET", TARGET)
MOST = 4096
AFTER = datetime(2026, 11, 16, 4, 0, 0, 5, UTC)


def impersonation(mode: ImpersonationMode) -> Permit:
    attempts = plan_attempts(
        BOB, UserInfo("alice"), GET_SCALE, rules=ImpersonationRules(), preferred_mode=mode
    )
    decision, _ = play(evaluate(attempts), allow=lambda _: True)
    assert isinstance(decision, Allowed)
    return permit_impersonation(BOB, decision)


def member(text: str) -> dict[str, object]:
    """Return the members of an event that a text of it holds."""
    members: dict[str, object] = json.loads("{" + text.removeprefix(",") + "}")
    return members


def test_an_event_tells_everything_in_the_order_of_the_api_server() -> None:
    members = (
        request_text(GET_SCALE, b"GET", TARGET, max_bytes=MOST).text,
        f',"user":{user_text(BOB.user, path="user", max_bytes=MOST).text}',
        decision_text(impersonation(ImpersonationMode.USER_INFO), max_bytes=MOST).text,
        origin_text(["10.0.0.1"], b"kubectl/v1.37"),
        object_text(GET_SCALE).text,
        response_text(200, max_bytes=MOST).text,
        ',"requestObject":{},"responseObject":[]',
    )
    ended_at = datetime(2026, 11, 16, 6, 0, 1, 0, timezone(timedelta(hours=2)))
    format_timestamp = TimestampFormatter().format_microseconds

    line = event_line(
        "RequestResponse",
        quoted("audit-1"),
        Stage.RESPONSE_COMPLETE.value,
        members="".join(members),
        timestamps=(
            format_timestamp(nanoseconds(AFTER)),
            format_timestamp(nanoseconds(ended_at)),
        ),
        annotations=',"annotations":{"a":"1"}',
    )

    assert line == (
        '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse",'
        '"auditID":"audit-1","stage":"ResponseComplete",'
        '"requestURI":"/apis/apps/v1/namespaces/n/deployments/d/scale?\\u003cx\\u003e",'
        '"verb":"get","user":{"username":"bob","uid":"7","groups":["dev"],'
        '"extra":{"a":["1"],"b":["2"]}},'
        '"impersonatedUser":{"username":"alice","groups":["system:authenticated"]},'
        '"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},'
        '"sourceIPs":["10.0.0.1"],"userAgent":"kubectl/v1.37",'
        '"objectRef":{"resource":"deployments","namespace":"n","name":"d","apiGroup":"apps",'
        '"apiVersion":"v1","subresource":"scale"},"responseStatus":{"metadata":{},"code":200},'
        '"requestObject":{},"responseObject":[],'
        '"requestReceivedTimestamp":"2026-11-16T04:00:00.000005Z",'
        '"stageTimestamp":"2026-11-16T04:00:01.000000Z","annotations":{"a":"1"}}\n'
    )


def test_legacy_impersonation_has_no_constraint() -> None:
    assert member(decision_text(impersonation(ImpersonationMode.LEGACY), max_bytes=MOST).text) == {
        "impersonatedUser": {"username": "alice", "groups": ["system:authenticated"]}
    }


def test_acting_as_oneself_is_no_impersonation() -> None:
    for nobody in (permit_self(BOB), None):
        assert decision_text(nobody, max_bytes=MOST) == ("", ())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (
            Forbidden("no", details={"kind": "pods"}),
            {"metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden",
             "details": {"kind": "pods"}, "code": 403},
        ),
        (
            TooManyRequests("wait", retry_after_seconds=3),
            {"metadata": {}, "status": "Failure", "message": "wait", "reason": "TooManyRequests",
             "details": {"retryAfterSeconds": 3}, "code": 429},
        ),
        (
            Unauthorized(),
            {"metadata": {}, "status": "Failure", "message": "Unauthorized",
             "reason": "Unauthorized", "code": 401},
        ),
        (RequestInfoError("x"), {"metadata": {}, "code": 500}),
    ],
)  # fmt: skip
def test_a_refusal_is_recorded_as_it_was_told(
    error: StatusError, status: dict[str, object]
) -> None:
    told = member(response_text(error.code, error, max_bytes=MOST).text)

    assert told == {"responseStatus": status}


def test_a_refusal_that_nobody_waited_for_is_recorded_with_its_own_code() -> None:
    told = member(response_text(0, Forbidden("no"), max_bytes=MOST).text)["responseStatus"]

    assert isinstance(told, dict)
    assert told["code"] == 403


def test_a_status_of_the_api_server_is_recorded_without_the_rest_of_it() -> None:
    status = {
        "kind": "Status", "apiVersion": "v1", "metadata": {"x": 1}, "status": "Failure",
        "message": "<gone>", "reason": "NotFound", "details": {"name": "p"}, "code": 1,
    }  # fmt: skip

    assert response_text(404, None, status, max_bytes=MOST).text == (
        ',"responseStatus":{"metadata":{},"status":"Failure","message":"\\u003cgone\\u003e",'
        '"reason":"NotFound","details":{"name":"p"},"code":404}'
    )


def test_an_exchange_without_an_answer_is_told_in_the_native_words() -> None:
    assert member(response_text(0, max_bytes=MOST).text) == {
        "responseStatus": {
            "metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200,
        }
    }  # fmt: skip


def test_what_was_never_found_out_is_left_out() -> None:
    request = request_text(None, b"GET", b"/\xff", max_bytes=MOST).text

    line = event_line(
        "Metadata",
        '"a"',
        "Panic",
        members=f'{request},"user":{user_text(None, path="user", max_bytes=MOST).text}',
        timestamps=("", ""),
        annotations="",
    )

    event = json.loads(line)
    assert list(event) == [
        "kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user",
        "requestReceivedTimestamp", "stageTimestamp",
    ]  # fmt: skip
    assert (event["user"], event["verb"], event["requestURI"]) == ({}, "get", "/%FF")
    assert user_text(None, path="user", max_bytes=MOST) == ("{}", ())
    assert origin_text([], b"") == object_text(None).text == ""


def test_a_path_is_no_object() -> None:
    assert object_text(parse_request_info(b"GET", b"/version")) == ("", ())


def test_a_body_names_the_object_where_the_target_does_not() -> None:
    create = parse_request_info(b"POST", b"/api/v1/namespaces/n/pods")
    said = {"name": "p", "namespace": "m", "uid": "u", "resourceVersion": "3"}

    assert object_text(create, said).text == (
        ',"objectRef":{"resource":"pods","namespace":"n","name":"p","uid":"u",'
        '"apiVersion":"v1","resourceVersion":"3"}'
    )


def test_a_long_user_agent_is_cut() -> None:
    cut = member(origin_text([], b"x" * 1025))
    whole = member(origin_text([], b"\xff" + b"x" * 1023))

    assert cut == {"userAgent": "x" * 1024 + "...TRUNCATED"}
    assert whole == {"userAgent": "\ufffd" + "x" * 1023}


@pytest.mark.parametrize("text", ["plain-1", 'a"b', "a\\b", "<>", "é", "", "a b"])
def test_every_text_is_quoted_as_go_does_it(text: str) -> None:
    assert json.loads(quoted(text)) == text
    assert "<" not in quoted(text)


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0s"),
        (7, "7µs"),
        (1500, "1.5ms"),
        (730_001, "730.001ms"),
        (1_000_000, "1s"),
        (1_500_123, "1.500123s"),
        (60_250_000, "1m0.25s"),
        (3_600_000_000, "1h0m0s"),
        (3_725_000_001, "1h2m5.000001s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(microseconds: int, text: str) -> None:
    assert go_duration(microseconds) == text


def test_timestamps_are_right_whatever_the_one_before() -> None:
    format_timestamp = TimestampFormatter().format_microseconds
    start = datetime(2026, 11, 16, 23, 59, 59, 999_998, UTC)
    steps = [0, 1, 2, 1_000_000, -1, 60_000_000, 3_600_000_000, 86_400_000_000, 999_999, 1, -3]

    moment = start
    for step in steps:
        moment += timedelta(microseconds=step)
        written = f"{moment.isoformat(timespec='microseconds')[:-6]}Z"
        now = nanoseconds(moment)
        assert [format_timestamp(now), format_timestamp(now + 999)] == [written, written]
        # A clock may be set back meanwhile.
        for other in (60_000_000_000, -60_000_000_000):
            format_timestamp(now + other)
            assert format_timestamp(now) == written


PEER = "10.0.0.9"


@pytest.mark.parametrize(
    ("headers", "addresses"),
    [
        ([], [PEER]),
        ([(b"x-forwarded-for", b"1.1.1.1, junk,2.2.2.2 ")], ["1.1.1.1", "2.2.2.2", PEER]),
        ([(b"X-Forwarded-For", b"1.1.1.1"), (b"X-Forwarded-For", b"2.2.2.2")], ["1.1.1.1", PEER]),
        ([(b"X-Forwarded-For", b"1.1.1.1, 10.0.0.9")], ["1.1.1.1", PEER]),
        ([(b"X-Real-Ip", b"3.3.3.3")], ["3.3.3.3", PEER]),
        ([(b"X-Forwarded-For", b"3.3.3.3"), (b"X-Real-Ip", b"3.3.3.3")], ["3.3.3.3", PEER]),
        ([(b"X-Forwarded-For", b"fe80::1%eth0, ::FFFF:1.1.1.1, 2001:DB8::1")],
         ["1.1.1.1", "2001:db8::1", PEER]),
    ],
)  # fmt: skip
def test_a_trusted_peer_s_word_about_the_origin_is_taken(
    headers: list[tuple[bytes, bytes]], addresses: list[str]
) -> None:
    assert source_ips(headers, PEER, trusts_peer=True) == addresses
    assert source_ips(headers, PEER, trusts_peer=False) == [PEER]


def test_a_peer_without_an_address_is_not_made_up() -> None:
    assert source_ips([], "unix", trusts_peer=False) == []
