"""Impersonations in audit events: users, modes, actions and truncated events."""

from contextlib import suppress
from typing import Any

import pytest

from proxy.analysis.usage.events import (
    ASSOCIATED_NODE,
    ImpersonationEvent,
    ImpersonationReader,
    TruncatedEvent,
    UsedRequest,
    caller_groups,
    reason_without_legacy,
)
from proxy.core.audit.annotations import DOMAIN
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import UserInfo
from tests.support.impersonation_events import NODE_KEY, event, truncation_of

ROBOT = "system:serviceaccount:ci:robot"
NO_OBJECT = {"resource": ""}


def read(made: dict[str, Any]) -> ImpersonationEvent:
    found = ImpersonationReader().read(made)
    assert found is not None
    return found


def test_impersonated_request_is_read_with_its_caller_user_and_action() -> None:
    reference = {"apiGroup": "apps", "resource": "deployments", "subresource": "scale"}

    found = read(event(verb="patch", ref={**reference, "namespace": "web", "name": "hello"}))

    assert found == ImpersonationEvent(
        caller="bob",
        wanted_user=UserInfo("alice"),
        mode="user-info",
        request_info=UsedRequest("patch", "apps", "deployments", "scale"),
        namespace="web",
        received_at="2026-11-16T04:00:00.000000Z",
        is_legacy=True,
        is_over=True,
        is_forbidden=False,
    )


@pytest.mark.parametrize(
    ("made", "is_legacy", "is_over", "is_forbidden"),
    [
        (event(), True, True, False),
        (event(code=403), True, True, True),
        (event(code=404), True, True, False),
        (event(stage="ResponseStarted"), True, False, False),
        (event(stage="Panic"), True, True, False),
        (event(constraint="impersonate:user-info"), False, True, False),
    ],
    ids=["complete", "forbidden", "not found", "started", "panic", "constrained"],
)
def test_outcome_is_read_from_stage_code_and_constraint(
    made: dict[str, Any], is_legacy: object, is_over: object, is_forbidden: object
) -> None:
    found = read(made)

    assert (found.is_legacy, found.is_over, found.is_forbidden) == (
        is_legacy,
        is_over,
        is_forbidden,
    )


@pytest.mark.parametrize(
    "made",
    [
        event(stage="RequestReceived"),
        event(stage="Unknown"),
        event(impersonatedUser=None),
        event(impersonatedUser="alice"),
    ],
    ids=["first stage", "unknown stage", "no user", "text as user"],
)
def test_event_without_a_decided_impersonation_is_none(made: dict[str, Any]) -> None:
    assert ImpersonationReader().read(made) is None


@pytest.mark.parametrize(
    ("made", "mode", "wanted_user"),
    [
        (
            event(
                "system:serviceaccount:a:b",
                groups=(
                    "system:serviceaccounts",
                    "system:serviceaccounts:a",
                    "system:authenticated",
                ),
            ),
            "serviceaccount",
            UserInfo("system:serviceaccount:a:b"),
        ),
        (
            event("system:serviceaccount:a:b", groups=("other", "system:authenticated")),
            "none",
            UserInfo("system:serviceaccount:a:b", groups=("other",)),
        ),
        (event("system:node:n1"), "arbitrary-node", UserInfo("system:node:n1")),
        (
            event("system:node:n1", groups=("system:nodes", "system:authenticated")),
            "none",
            UserInfo("system:node:n1", groups=("system:nodes",)),
        ),
        (
            event(
                "system:node:n1",
                groups=("system:nodes", "system:authenticated"),
                constraint="impersonate:arbitrary-node",
            ),
            "arbitrary-node",
            UserInfo("system:node:n1"),
        ),
        (
            event("root", groups=("system:masters", "system:authenticated")),
            "none",
            UserInfo("root", groups=("system:masters",)),
        ),
        (
            event(
                became={
                    "extra": {
                        "example.com/k": ["v"],
                        "original-user.kube-understudy.io/name": ["bob"],
                    }
                }
            ),
            "user-info",
            UserInfo("alice", extra=(("example.com/k", ("v",)),)),
        ),
        (
            event("system:anonymous", groups=("system:unauthenticated",)),
            "user-info",
            UserInfo("system:anonymous"),
        ),
    ],
    ids=[
        "account",
        "account with group",
        "node",
        "node with group",
        "node by mode",
        "masters",
        "extras",
        "anonymous",
    ],
)
def test_wanted_user_is_read_without_implied_groups(
    made: dict[str, Any], mode: str, wanted_user: UserInfo
) -> None:
    found = read(made)

    assert (found.mode, found.wanted_user) == (mode, wanted_user)


def test_node_of_the_caller_is_a_placeholder_and_another_node_is_not() -> None:
    runs_on = {"extra": {NODE_KEY: ["n1"]}}

    own = read(event("system:node:n1", caller=ROBOT, user=runs_on))
    other = read(event("system:node:n2", caller=ROBOT, user=runs_on))

    assert (own.mode, own.wanted_user) == ("associated-node", ASSOCIATED_NODE)
    assert (other.mode, other.wanted_user) == ("arbitrary-node", UserInfo("system:node:n2"))


def test_cached_mode_of_one_caller_is_not_used_for_a_caller_on_another_node() -> None:
    reader = ImpersonationReader()
    modes = []
    for node in ("n1", "n2", "n1"):
        made = event("system:node:n1", caller=ROBOT, user={"extra": {NODE_KEY: [node]}})
        found = reader.read(made)
        assert found is not None
        modes.append(found.mode)

    assert modes == ["associated-node", "arbitrary-node", "associated-node"]


def test_caller_that_is_no_service_account_runs_on_no_node() -> None:
    found = read(event("system:node:n1", user={"extra": {NODE_KEY: ["n1"]}}))

    assert found.mode == "arbitrary-node"


def test_users_that_differ_only_in_extras_are_not_confused_by_the_cache() -> None:
    reader = ImpersonationReader()
    users = []
    for extra in ({}, {"k": ["v"]}, {"k": ["w"]}, {}):
        found = reader.read(event(became={"extra": extra}))
        assert found is not None
        users.append(found.wanted_user.extra)

    assert users == [(), (("k", ("v",)),), (("k", ("w",)),), ()]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/version", "/version"),
        ("/version?timeout=32s", "/version"),
        ("/api", "/api"),
        ("/api/", "/api/*"),
        ("/apis/apps/v1?timeout=32s", "/apis/*"),
        ("/openapi/v3/apis/apps/v1", "/openapi/*"),
        ("/apiserver/x", "/apiserver/x"),
        ("/healthz/etcd", "/healthz/etcd"),
        ("odd", "odd"),
    ],
)
def test_discovery_paths_are_folded_into_patterns(uri: str, path: str) -> None:
    found = read(event(verb="get", ref=NO_OBJECT, uri=uri))

    assert (found.request_info, found.namespace) == (UsedRequest("get", path=path), "")


def test_used_request_becomes_a_request_info_in_a_namespace() -> None:
    resource = UsedRequest("get", "apps", "deployments", "scale")
    path = UsedRequest("get", path="/version")

    assert resource.request_info("web") == RequestInfo(
        "get",
        "",
        is_resource=True,
        group="apps",
        namespace="web",
        resource="deployments",
        subresource="scale",
    )
    assert path.request_info("") == RequestInfo("get", "/version")


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"kind": "EventList", "stage": "ResponseComplete"},
        event(constraint="impersonate:nonsense"),
        event(ref=NO_OBJECT, uri=""),
        event(ref=NO_OBJECT, verb=""),
        event(stage=""),
        event(""),
        event(caller=""),
        event(annotations={f"{DOMAIN}/truncated": "[]"}),
    ],
    ids=[
        "empty",
        "list of events",
        "unknown constraint",
        "no path",
        "no verb",
        "no stage",
        "no target",
        "no caller",
        "unreadable truncation",
    ],
)
def test_document_that_is_not_an_event_is_an_error(made: dict[str, Any]) -> None:
    with pytest.raises(InvalidAuditEvent) as raised:
        ImpersonationReader().read(made)
    assert not isinstance(raised.value, TruncatedEvent)


@pytest.mark.parametrize("odd", [7, None, [], {"username": 7}, {"groups": "g", "extra": [1]}])
@pytest.mark.parametrize("part", ["user", "impersonatedUser", "objectRef", "responseStatus"])
def test_part_of_an_unexpected_type_raises_nothing_else(part: str, odd: object) -> None:
    with suppress(InvalidAuditEvent):
        found = ImpersonationReader().read({**event(), part: odd})
        assert found is None or (found.caller, found.wanted_user) == ("bob", UserInfo("alice"))


@pytest.mark.parametrize(
    "made",
    [
        event(annotations=truncation_of("user.groups")),
        event(annotations=truncation_of("impersonatedUser.username")),
        event(annotations=truncation_of("objectRef.name")),
        event(
            uri=f"/metrics{TRUNCATION_MARKER}",
            ref=NO_OBJECT,
            annotations=truncation_of("requestURI"),
        ),
    ],
    ids=["caller", "target", "object", "path"],
)
def test_event_truncated_in_a_part_that_a_grant_names_is_an_error(made: dict[str, Any]) -> None:
    with pytest.raises(TruncatedEvent):
        ImpersonationReader().read(made)


@pytest.mark.parametrize(
    "made",
    [
        event(
            uri=f"/api/v1/pods?labelSelector=x{TRUNCATION_MARKER}",
            annotations=truncation_of("requestURI"),
        ),
        event(
            uri=f"/metrics?x{TRUNCATION_MARKER}",
            ref=NO_OBJECT,
            annotations=truncation_of("requestURI"),
        ),
        # kube-apiserver marks an event without bodies in this way, and nothing else.
        event(annotations={"audit.k8s.io/truncated": "true"}),
        event(annotations=truncation_of("userAgent")),
    ],
    ids=["query of an object", "query of a path", "bodies", "user agent"],
)
def test_event_truncated_in_another_part_is_read(made: dict[str, Any]) -> None:
    assert read(made).wanted_user == UserInfo("alice")


def test_groups_of_the_caller_are_texts() -> None:
    assert caller_groups(event(user={"groups": ["ops", 7]})) == ("ops",)
    assert caller_groups(event(user={"groups": "ops"})) == ()
    assert caller_groups({}) == ()


def test_reason_without_legacy_exists_only_for_users_that_no_grant_allows() -> None:
    masters = UserInfo("root", groups=("system:masters",))

    assert reason_without_legacy(UserInfo("alice", groups=("ops",))) is None
    assert reason_without_legacy(masters) == "impersonating the system:masters group is not allowed"
    assert reason_without_legacy(UserInfo("system:node:n1", groups=("system:nodes",)))
