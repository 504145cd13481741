import json
from typing import Any

import pytest

from proxy.core.audit.annotations import DOMAIN
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.explain.recorded_request import (
    RecordedOutcome,
    read_recorded,
    read_request,
    wanted_user_from_event,
)
from proxy.core.truncation import format_truncated_values, truncated_value
from proxy.core.userinfo import Caller, UserInfo, make_extra

EVENT: dict[str, Any] = {
    "kind": "Event",
    "auditID": "id-1",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/namespaces/web/pods?limit=500",
    "verb": "list",
    "user": {"username": "bob", "uid": "7", "groups": ["dev"], "extra": {"k": ["v", 1]}},
    "requestReceivedTimestamp": "2026-11-16T04:00:00.000000Z",
    "responseStatus": {"code": 403, "message": "no"},
    "annotations": {
        "kube-understudy.io/reviews": "2",
        "kube-understudy.io/wanted": '{"username":"alice","groups":["g"]}',
        "authorization.k8s.io/decision": "allow",
    },
}


def test_an_event_says_what_became_of_a_request() -> None:
    assert read_recorded(EVENT) == RecordedOutcome(
        "id-1",
        "2026-11-16T04:00:00.000000Z",
        403,
        "no",
        "",
        {"reviews": "2", "wanted": '{"username":"alice","groups":["g"]}'},
    )


def test_an_event_of_an_allowed_impersonation_names_its_constraint() -> None:
    event = EVENT | {"authenticationMetadata": {"impersonationConstraint": "impersonate:user-info"}}
    event["responseStatus"] = {"code": "odd"}

    recorded = read_recorded(event)

    assert recorded.constraint == "impersonate:user-info"
    assert recorded.code is None


def test_a_denied_request_is_read_with_whom_it_wanted() -> None:
    request = read_request(EVENT)

    assert request.caller == Caller(UserInfo("bob", "7", ("dev",), make_extra({"k": ["v"]})))
    assert request.wanted_user == UserInfo("alice", groups=("g",))
    assert (request.request_info.verb, request.request_info.namespace) == ("list", "web")


def test_an_allowed_one_is_read_with_whom_it_became() -> None:
    event = {key: value for key, value in EVENT.items() if key != "annotations"}
    event["impersonatedUser"] = {"username": "alice", "groups": ["g", "system:authenticated"]}

    assert read_request(event).wanted_user == UserInfo("alice", groups=("g",))


def test_who_acts_as_themselves_wants_nobody() -> None:
    event = {key: value for key, value in EVENT.items() if key != "annotations"}

    assert read_request(event).wanted_user is None


@pytest.mark.parametrize(
    ("acting", "wanted"),
    [
        (("alice", ("g", "system:authenticated")), ("alice", ("g",))),
        (("system:anonymous", ("system:unauthenticated",)), ("system:anonymous", ())),
        (("system:node:n1", ("system:nodes", "system:authenticated")), ("system:node:n1", ())),
        (("system:node:n1", ("system:authenticated",)), ("system:node:n1", ())),
        (
            (
                "system:serviceaccount:a:b",
                ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"),
            ),
            ("system:serviceaccount:a:b", ()),
        ),
        (("system:serviceaccount:a:b", ("g",)), ("system:serviceaccount:a:b", ("g",))),
    ],
)
def test_what_is_implied_was_not_asked_for(
    acting: tuple[str, tuple[str, ...]], wanted: tuple[str, tuple[str, ...]]
) -> None:
    named = UserInfo(acting[0], groups=acting[1])

    assert wanted_user_from_event(named) == UserInfo(wanted[0], groups=wanted[1])


def test_our_own_word_about_the_caller_was_not_asked_for() -> None:
    extra = make_extra({"original-user.kube-understudy.io/name": ["bob"], "k": ["v"]})

    assert wanted_user_from_event(UserInfo("alice", extra=extra)).extra == make_extra({"k": ["v"]})


@pytest.mark.parametrize(
    ("verb", "uri"),
    [
        ("list", "/api/v1/pods"),
        ("watch", "/api/v1/pods?watch=1"),
        ("get", "/api/v1/namespaces/a/pods/p"),
        ("create", "/api/v1/namespaces/a/pods"),
        ("update", "/api/v1/namespaces/a/pods/p"),
        ("patch", "/api/v1/namespaces/a/pods/p"),
        ("delete", "/api/v1/namespaces/a/pods/p"),
        ("deletecollection", "/api/v1/namespaces/a/pods"),
        ("", "/api/v1/pods"),
        ("proxy", "/api/v1/proxy/nodes/n"),
        ("get", "/version"),
        ("post", "/version"),
        ("head", "/version"),
    ],
)
def test_the_verb_tells_the_method(verb: str, uri: str) -> None:
    assert read_request(EVENT | {"verb": verb, "requestURI": uri}).request_info.verb == verb


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": {}}, "the caller was not authenticated"),
        ({"verb": "impress"}, "has the verb impress"),
        ({"requestURI": "nowhere"}, "cannot be read"),
        ({"annotations": {"kube-understudy.io/wanted": "{"}}, "is not JSON"),
        (
            {
                "annotations": {},
                "responseStatus": {"message": 'User "bob" cannot impersonate resource "users"'},
            },
            "does not name the wanted user",
        ),
    ],
)
def test_what_cannot_be_judged_says_why(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidAuditEvent, match=words):
        read_request(EVENT | change)


def test_a_strange_wanted_identity_is_nobody() -> None:
    event = EVENT | {"annotations": {"kube-understudy.io/wanted": json.dumps(["alice"])}}
    strange = EVENT | {"user": {"username": "bob", "groups": "dev"}}

    assert read_request(event).wanted_user is None
    assert read_request(strange).caller.user.groups == ()


@pytest.mark.parametrize("missing", ["auditID", "requestURI"])
def test_what_is_no_event_is_refused(missing: str) -> None:
    with pytest.raises(InvalidAuditEvent, match="not an audit event"):
        read_recorded({key: value for key, value in EVENT.items() if key != missing})


@pytest.mark.parametrize(
    "path", ["requestURI", "user.username", "user.groups", "impersonatedUser.extra",
             "annotations.wanted.groups"],
)  # fmt: skip
def test_a_request_that_was_cut_is_not_judged_as_another_one(path: str) -> None:
    annotations = EVENT["annotations"] | {
        f"{DOMAIN}/truncated": format_truncated_values([truncated_value(path, "x")])
    }

    with pytest.raises(InvalidAuditEvent, match=f"its {path} was truncated when it was recorded"):
        read_request(EVENT | {"annotations": annotations})


@pytest.mark.parametrize("path", ["responseStatus", "objectRef", "annotations.incomplete"])
def test_what_is_not_judged_may_have_been_cut(path: str) -> None:
    annotations = EVENT["annotations"] | {
        f"{DOMAIN}/truncated": format_truncated_values([truncated_value(path, "x")])
    }

    assert read_request(EVENT | {"annotations": annotations}) == read_request(EVENT)


def test_a_denial_whose_message_was_cut_may_be_one_of_an_impersonation() -> None:
    cut = {f"{DOMAIN}/truncated": format_truncated_values([truncated_value("responseStatus", "x")])}

    with pytest.raises(InvalidAuditEvent, match="does not name the wanted user"):
        read_request(EVENT | {"annotations": cut})
    plain = read_request(EVENT | {"annotations": cut, "responseStatus": {"code": 404}})
    assert plain.wanted_user is None


def test_an_event_that_does_not_say_what_was_cut_is_not_judged() -> None:
    with pytest.raises(InvalidAuditEvent, match="truncated cannot be read"):
        read_request(EVENT | {"annotations": {f"{DOMAIN}/truncated": "?"}})
