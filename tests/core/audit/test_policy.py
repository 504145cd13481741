import pytest

from proxy.core.audit.event import Stage
from proxy.core.audit.policy import (
    AuditPolicy,
    GroupResources,
    Level,
    PolicyRule,
    RequestAuditConfig,
)
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import UserInfo

ALICE = UserInfo("alice", groups=("dev",))
GET_POD = parse_request_info(b"GET", b"/api/v1/namespaces/n/pods/p")


def metadata_for(**matching: tuple[str, ...]) -> AuditPolicy:
    return AuditPolicy([PolicyRule(Level.METADATA, **matching)])  # type: ignore[arg-type]  # texts only


def test_the_same_request_is_judged_once_and_stays_the_same() -> None:
    policy = metadata_for(users=("alice",), user_groups=("dev",))

    first = policy.evaluate(ALICE, GET_POD)

    assert policy.evaluate(ALICE, GET_POD) is first
    assert first.level is Level.METADATA


@pytest.mark.parametrize(
    "matching",
    [{"users": ("alice",)}, {"user_groups": ("dev",)}],
    ids=["users", "groups"],
)
def test_memory_tells_callers_apart_as_far_as_rules_do(
    matching: dict[str, tuple[str, ...]],
) -> None:
    policy = metadata_for(**matching)

    levels = [
        policy.evaluate(who, GET_POD).level
        for who in (ALICE, UserInfo("bob", groups=("ops",)), None, ALICE)
    ]

    assert levels == [Level.METADATA, Level.NONE, Level.NONE, Level.METADATA]


def test_memory_tells_a_selected_name_from_none() -> None:
    rule = PolicyRule(Level.REQUEST, resources=(GroupResources("", ("pods",), ("p",)),))
    policy = AuditPolicy([rule])
    by_name = parse_request_info(b"GET", b"/api/v1/pods?fieldSelector=metadata.name%3Dp")

    levels = [
        policy.evaluate(ALICE, request_info).level
        for request_info in (parse_request_info(b"GET", b"/api/v1/pods"), by_name)
    ]

    assert levels == [Level.NONE, Level.REQUEST]


def test_memory_is_bounded_in_number_and_in_length() -> None:
    policy = metadata_for(users=("alice",), user_groups=("dev",))
    crowd = UserInfo("alice", groups=("dev",) * 100)

    for number in range(9000):
        policy.evaluate(ALICE, RequestInfo("get", f"/{number}"))
    size = len(policy._cache)
    for who, path in ((ALICE, "/" + "x" * 300), (crowd, "/x"), (UserInfo("x" * 300), "/x")):
        policy.evaluate(who, RequestInfo("get", path))

    assert size <= 8192
    assert len(policy._cache) == size


def test_a_recording_says_what_follows_from_it() -> None:
    every = RequestAuditConfig(Level.REQUEST_RESPONSE)
    some = RequestAuditConfig(Level.REQUEST, frozenset({Stage.REQUEST_RECEIVED, Stage.PANIC}))
    silent = RequestAuditConfig(Level.NONE)

    assert (every.has_request_body, every.has_response_body) == (True, True)
    assert (some.has_request_body, some.has_response_body) == (True, False)
    assert (some.writes_received, some.writes_started) == (False, True)
    assert (some.writes_complete, some.writes_panic) == (True, False)
    assert silent.is_none
    assert not any((silent.writes_received, silent.writes_started, silent.writes_complete))
