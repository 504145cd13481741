import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from proxy.core.action import parse_action
from proxy.core.admission import Admission, admit_as, admit_self
from proxy.core.audit_event import AuditFacts, Stage, build_event, event_line, source_ips
from proxy.core.errors import Forbidden, Refusal, Unauthorized, UnreadableRequest
from proxy.core.evaluation import Allowed, evaluate
from proxy.core.identity import Caller, Identity, extra_of
from proxy.core.modes import Mode
from proxy.core.plan import DecisionRules, plan_attempts
from tests.core.play import play

BOB = Caller(Identity("bob", "7", ("dev",), extra_of({"b": ["2"], "a": ["1"]})))
TARGET = b"/apis/apps/v1/namespaces/n/deployments/d/scale?<x>"
GET_SCALE = parse_action(b"GET", TARGET)
FACTS = AuditFacts(
    "audit-1",
    Stage.RESPONSE_COMPLETE,
    "get",
    TARGET,
    datetime(2026, 11, 16, 4, 0, 0, 5, UTC),
    datetime(2026, 11, 16, 6, 0, 1, 0, timezone(timedelta(hours=2))),
    action=GET_SCALE,
    caller=BOB.identity,
    source_ips=["10.0.0.1"],
    user_agent=b"kubectl/v1.37",
    code=200,
)


def impersonation(mode: Mode) -> Admission:
    attempts = plan_attempts(
        BOB, Identity("alice"), GET_SCALE, rules=DecisionRules(), remembered=mode
    )
    verdict, _ = play(evaluate(attempts), allow=lambda _: True)
    assert isinstance(verdict, Allowed)
    return admit_as(BOB, verdict)


def test_an_event_tells_everything_in_the_order_of_the_api_server() -> None:
    event = build_event(
        replace(FACTS, admission=impersonation(Mode.USER_INFO), annotations={"b": "2", "a": "1"})
    )

    assert event_line(event) == (
        b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"audit-1",'
        b'"stage":"ResponseComplete",'
        b'"requestURI":"/apis/apps/v1/namespaces/n/deployments/d/scale?\\u003cx\\u003e",'
        b'"verb":"get","user":{"username":"bob","uid":"7","groups":["dev"],'
        b'"extra":{"a":["1"],"b":["2"]}},'
        b'"impersonatedUser":{"username":"alice","groups":["system:authenticated"]},'
        b'"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},'
        b'"sourceIPs":["10.0.0.1"],"userAgent":"kubectl/v1.37",'
        b'"objectRef":{"resource":"deployments","namespace":"n","name":"d","apiGroup":"apps",'
        b'"apiVersion":"v1","subresource":"scale"},"responseStatus":{"metadata":{},"code":200},'
        b'"requestReceivedTimestamp":"2026-11-16T04:00:00.000005Z",'
        b'"stageTimestamp":"2026-11-16T04:00:01.000000Z","annotations":{"a":"1","b":"2"}}\n'
    )


def test_legacy_impersonation_has_no_constraint() -> None:
    event = build_event(replace(FACTS, admission=impersonation(Mode.LEGACY)))

    assert event["impersonatedUser"] == {"username": "alice", "groups": ["system:authenticated"]}
    assert "authenticationMetadata" not in event


def test_acting_as_oneself_is_no_impersonation() -> None:
    event = build_event(replace(FACTS, admission=admit_self(BOB)))

    assert "impersonatedUser" not in event


def test_the_first_event_knows_nothing_of_a_decision() -> None:
    event = build_event(
        replace(FACTS, stage=Stage.REQUEST_RECEIVED, admission=impersonation(Mode.USER_INFO))
    )

    assert {"impersonatedUser", "authenticationMetadata", "responseStatus"}.isdisjoint(event)


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (
            Forbidden("no", details={"kind": "pods"}),
            {"metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden",
             "details": {"kind": "pods"}, "code": 403},
        ),
        (
            Unauthorized(),
            {"metadata": {}, "status": "Failure", "message": "Unauthorized",
             "reason": "Unauthorized", "code": 401},
        ),
        (UnreadableRequest("x"), {"metadata": {}, "code": 500}),
    ],
)  # fmt: skip
def test_a_refusal_is_recorded_as_it_was_told(refusal: Refusal, status: dict[str, object]) -> None:
    event = build_event(replace(FACTS, refusal=refusal, code=refusal.code))

    assert event["responseStatus"] == status


def test_what_was_never_found_out_is_left_out() -> None:
    unknown = AuditFacts("a", Stage.PANIC, "GET", b"/\xff", FACTS.received_at, FACTS.stage_at)

    event = build_event(unknown, level="Request")

    assert list(event) == [
        "kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user",
        "requestReceivedTimestamp", "stageTimestamp",
    ]  # fmt: skip
    assert (event["user"], event["verb"], event["level"]) == ({}, "GET", "Request")
    assert event["requestURI"] == "/%FF"


def test_a_path_is_no_object() -> None:
    event = build_event(replace(FACTS, action=parse_action(b"GET", b"/version")))

    assert "objectRef" not in event


def test_a_long_user_agent_is_cut() -> None:
    event = build_event(replace(FACTS, user_agent=b"x" * 1025))
    whole = build_event(replace(FACTS, user_agent=b"\xff" + b"x" * 1023))

    assert event["userAgent"] == "x" * 1024 + "...TRUNCATED"
    assert json.loads(event_line(whole))["userAgent"] == "\ufffd" + "x" * 1023


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
