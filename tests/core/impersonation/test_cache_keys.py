from dataclasses import fields, replace

import pytest

from proxy.core.impersonation.cache_keys import request_key, user_key
from proxy.core.impersonation.checks import Attempt, ImpersonationRules, plan_attempts
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.requestinfo.selectors import FieldRequirement, LabelRequirement
from proxy.core.userinfo import (
    NODE_NAME_KEY,
    Caller,
    UserInfo,
    make_extra,
)

ACTION = RequestInfo("get", "/p", version="v1", resource="pods")
ATTEMPT = Attempt(
    ImpersonationMode.USER_INFO, UserInfo("bob"), UserInfo("alice"), ACTION, ImpersonationRules()
)


OTHER_ACTIONS = {
    "verb": replace(ACTION, verb="x"),
    "path": replace(ACTION, path="x"),
    "is_resource": replace(ACTION, is_resource=True),
    "group": replace(ACTION, group="x"),
    "version": replace(ACTION, version="x"),
    "namespace": replace(ACTION, namespace="x"),
    "resource": replace(ACTION, resource="x"),
    "name": replace(ACTION, name="x"),
    "subresource": replace(ACTION, subresource="x"),
    "fields": replace(ACTION, fields=(FieldRequirement("a", "=", "b"),)),
    "labels": replace(ACTION, labels=(LabelRequirement("a", "=", ("b",)),)),
    "has_unparsed_selector": replace(ACTION, has_unparsed_selector=True),
}
OTHER_IDENTITIES = {
    "name": UserInfo("x"),
    "uid": UserInfo("same", uid="x"),
    "groups": UserInfo("same", groups=("x",)),
    "extra": UserInfo("same", extra=(("x", ("y",)),)),
}


@pytest.mark.parametrize("name", [field.name for field in fields(RequestInfo) if field.compare])
def test_every_field_of_the_action_makes_another_request_but_the_same_identities(
    name: str,
) -> None:
    other = replace(ATTEMPT, request_info=OTHER_ACTIONS[name])

    assert request_key(other) != request_key(ATTEMPT)
    assert user_key(other) == user_key(ATTEMPT)


@pytest.mark.parametrize("name", [field.name for field in fields(UserInfo) if field.compare])
def test_every_field_of_either_identity_makes_another_decision(name: str) -> None:
    same = replace(ATTEMPT, caller=UserInfo("same"), wanted_user=UserInfo("same"))
    other = OTHER_IDENTITIES[name]
    variants = [same, replace(same, caller=other), replace(same, wanted_user=other)]

    assert len({request_key(variant) for variant in variants}) == 3
    assert len({user_key(variant) for variant in variants}) == 3


def test_the_mode_and_the_second_action_make_another_decision() -> None:
    legacy = replace(ATTEMPT, mode=ImpersonationMode.LEGACY)
    creating = replace(ATTEMPT, requires_create=True)

    assert user_key(legacy) != user_key(ATTEMPT)
    assert request_key(creating) != request_key(ATTEMPT)
    assert user_key(creating) == user_key(ATTEMPT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (UserInfo("a", groups=("b", "c")), UserInfo("a", groups=("c", "b"))),
        (UserInfo("a", groups=("b", "c")), UserInfo("a", groups=("b', 'c",))),
        (UserInfo("a", groups=("b,c",)), UserInfo("a", groups=("b", "c"))),
        (UserInfo("a", groups=("\\n",)), UserInfo("a", groups=("\n",))),
        (UserInfo("a", groups=("'",)), UserInfo("a", groups=('"',))),
        (UserInfo("a", uid="b"), UserInfo("ab")),
        (UserInfo("a", extra=(("b", ("c", "d")),)), UserInfo("a", extra=(("b", ("c",)),))),
    ],
)
def test_identities_that_only_look_alike_have_different_keys(
    one: UserInfo, other: UserInfo
) -> None:
    assert user_key(replace(ATTEMPT, wanted_user=one)) != user_key(
        replace(ATTEMPT, wanted_user=other)
    )


def same_request(one: bytes, other: bytes) -> bool:
    attempts = [
        replace(ATTEMPT, request_info=parse_request_info(method, target))
        for method, target in (one.split(b" "), other.split(b" "))
    ]
    return request_key(attempts[0]) == request_key(attempts[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"GET /api/v1/pods", b"HEAD /api/v1/pods"),
        (b"GET /api/v1/pods?limit=5", b"GET /api/v1/pods?resourceVersion=0"),
        (b"GET /api/v1/p%6fds", b"GET /api/v1/pods"),
        (b"GET /api/v1/pods?fieldSelector=a=b", b"GET /api/v1/pods?fieldSelector=a==b"),
        (b"GET /api/v1/pods?labelSelector=a=1,b=2", b"GET /api/v1/pods?labelSelector=b=2,a=1"),
    ],
)
def test_spellings_of_one_request_share_an_entry(one: bytes, other: bytes) -> None:
    assert same_request(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"GET /api/v1/pods", b"GET /api/v1/pods/"),
        (b"GET /api/v1/pods", b"GET //api/v1/pods"),
        (b"GET /api/v1/pods", b"GET /api/v1/pods?watch"),
        (b"GET /api/v1/pods?labelSelector=a=b", b"GET /api/v1/pods?labelSelector=a==b"),
        (b"GET /api/v1/pods?labelSelector=a=b", b"GET /api/v1/pods?labelSelector=a+in+(b)"),
        (b"GET /api/v1/pods?labelSelector=a%3E1", b"GET /api/v1/pods"),
    ],
)
def test_requests_that_differ_for_the_server_share_none(one: bytes, other: bytes) -> None:
    assert not same_request(one, other)


def agent_attempt(node: str, *, keys: tuple[str, ...] = ()) -> Attempt:
    extra = {NODE_NAME_KEY: [node], "authentication.kubernetes.io/credential-id": [f"JTI={node}"]}
    caller = Caller(
        UserInfo(
            "system:serviceaccount:ns:agent", extra=make_extra(extra | {key: ["v"] for key in keys})
        )
    )
    wanted_user = UserInfo(f"system:node:{node}")
    return next(plan_attempts(caller, wanted_user, ACTION, rules=ImpersonationRules()))


def test_agents_on_different_nodes_share_their_entries() -> None:
    one, other = agent_attempt("n1"), agent_attempt("n2")

    assert one.mode is other.mode is ImpersonationMode.ASSOCIATED_NODE
    assert request_key(one) == request_key(other)
    assert user_key(one) == user_key(other)


def test_agents_known_by_other_means_do_not_share() -> None:
    assert user_key(agent_attempt("n1")) != user_key(agent_attempt("n1", keys=("k",)))


def test_other_modes_never_share_between_nodes() -> None:
    keys = {
        user_key(replace(agent_attempt(node), mode=ImpersonationMode.ARBITRARY_NODE))
        for node in ("n1", "n2")
    }

    assert len(keys) == 2
