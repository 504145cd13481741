"""Caches of allowed impersonations: what an entry serves, when it ends, and how many there are."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.authorization.decision_cache import (
    DecisionCache,
    ImpersonatedRequest,
    ModeCache,
    ResultCache,
    is_result_cacheable,
)
from proxy.core.impersonation.cache_keys import request_key
from proxy.core.impersonation.checks import Attempt, ImpersonationRules
from proxy.core.impersonation.evaluation import CacheScope
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import AuthorizationResult, permit_self
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo
from tests.support.clock import FakeClock

BOB = Caller(UserInfo("bob", groups=("system:authenticated",)))
ALICE = UserInfo("alice")
LIST_PODS = parse_request_info(b"GET", b"/api/v1/pods")
GET_SECRET = parse_request_info(b"GET", b"/api/v1/namespaces/default/secrets/s")
ATTEMPT = Attempt(ImpersonationMode.USER_INFO, BOB.user, ALICE, LIST_PODS, ImpersonationRules())
REQUEST, IDENTITY = CacheScope.REQUEST, CacheScope.IDENTITY
TTL_SECONDS, LEGACY_TTL_SECONDS = 10.0, 3.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def new_cache(
    clock: FakeClock, *, entries: int = 100, legacy_ttl_seconds: float = LEGACY_TTL_SECONDS
) -> DecisionCache:
    return DecisionCache(
        ttl_seconds=TTL_SECONDS,
        legacy_ttl_seconds=legacy_ttl_seconds,
        entries=entries,
        clock=clock,
    )


def test_decision_cache_serves_an_equal_attempt_in_the_same_scope_only(clock: FakeClock) -> None:
    for added, other in ((REQUEST, IDENTITY), (IDENTITY, REQUEST)):
        cache = new_cache(clock)

        cache.add(ATTEMPT, added)

        assert cache.contains(replace(ATTEMPT), added)
        assert not cache.contains(ATTEMPT, other)


@pytest.mark.parametrize(
    "other",
    [
        replace(ATTEMPT, mode=ImpersonationMode.ARBITRARY_NODE),
        replace(ATTEMPT, caller=UserInfo("eve", groups=BOB.user.groups)),
        replace(ATTEMPT, caller=UserInfo("bob")),
        replace(ATTEMPT, wanted_user=UserInfo("root")),
        replace(ATTEMPT, wanted_user=UserInfo("alice", groups=("ops",))),
        replace(ATTEMPT, wanted_user=UserInfo("alice", uid="1")),
    ],
    ids=["mode", "caller", "caller's groups", "wanted user", "wanted groups", "wanted uid"],
)
@pytest.mark.parametrize("scope", CacheScope)
def test_decision_cache_serves_no_other_identity(
    clock: FakeClock, other: Attempt, scope: CacheScope
) -> None:
    cache = new_cache(clock)

    cache.add(ATTEMPT, scope)

    assert not cache.contains(other, scope)


@pytest.mark.parametrize(
    "other",
    [replace(ATTEMPT, request_info=GET_SECRET), replace(ATTEMPT, requires_create=True)],
    ids=["request info", "check of create"],
)
def test_only_an_identity_entry_serves_another_request(clock: FakeClock, other: Attempt) -> None:
    cache = new_cache(clock)

    cache.add(ATTEMPT, REQUEST)
    assert not cache.contains(other, REQUEST)

    cache.add(ATTEMPT, IDENTITY)
    assert cache.contains(other, IDENTITY)


@pytest.mark.parametrize("scope", CacheScope)
def test_decision_expires_after_its_ttl_although_it_is_used(
    clock: FakeClock, scope: CacheScope
) -> None:
    cache = new_cache(clock)
    cache.add(ATTEMPT, scope)

    clock.advance(TTL_SECONDS - 1)
    assert cache.contains(ATTEMPT, scope)
    clock.advance(1)
    assert not cache.contains(ATTEMPT, scope)


def test_request_key_is_found_until_its_entry_expires(clock: FakeClock) -> None:
    cache = new_cache(clock)
    assert not cache.contains_request(request_key(ATTEMPT))

    cache.add(ATTEMPT, REQUEST)
    assert cache.contains_request(request_key(ATTEMPT))

    clock.advance(TTL_SECONDS)
    assert not cache.contains_request(request_key(ATTEMPT))


def test_legacy_identity_has_a_ttl_of_its_own(clock: FakeClock) -> None:
    cache, legacy = new_cache(clock), replace(ATTEMPT, mode=ImpersonationMode.LEGACY)
    for attempt in (legacy, ATTEMPT):
        cache.add(attempt, IDENTITY)

    clock.advance(LEGACY_TTL_SECONDS)

    assert not cache.contains(legacy, IDENTITY)
    assert cache.contains(ATTEMPT, IDENTITY)


def test_legacy_identity_is_not_cached_with_a_ttl_of_zero(clock: FakeClock) -> None:
    cache = new_cache(clock, legacy_ttl_seconds=0)
    legacy = replace(ATTEMPT, mode=ImpersonationMode.LEGACY)

    cache.add(legacy, IDENTITY)

    assert not cache.contains(legacy, IDENTITY)


def test_full_decision_cache_evicts_the_oldest_entry(clock: FakeClock) -> None:
    cache = new_cache(clock, entries=2)
    attempts = [replace(ATTEMPT, wanted_user=UserInfo(name)) for name in "abc"]

    for attempt in attempts:
        cache.add(attempt, REQUEST)

    assert [cache.contains(attempt, REQUEST) for attempt in attempts] == [False, True, True]


def test_mode_cache_has_the_last_mode_of_each_caller() -> None:
    modes = ModeCache(enabled=True)

    modes.put("bob", ImpersonationMode.LEGACY)
    modes.put("bob", ImpersonationMode.USER_INFO)
    modes.put("eve", ImpersonationMode.LEGACY)

    assert modes.get("bob") is ImpersonationMode.USER_INFO
    assert modes.get("eve") is ImpersonationMode.LEGACY
    assert modes.get("dan") is None


def test_disabled_mode_cache_has_no_entries() -> None:
    modes = ModeCache(enabled=False)

    modes.put("bob", ImpersonationMode.USER_INFO)

    assert modes.get("bob") is None


def test_full_mode_cache_evicts_the_caller_that_was_stored_longest_ago() -> None:
    modes = ModeCache(enabled=True)
    for number in range(10_000):
        modes.put(f"{number}", ImpersonationMode.USER_INFO)

    modes.put("0", ImpersonationMode.USER_INFO)
    modes.put("new", ImpersonationMode.USER_INFO)

    assert modes.get("1") is None
    assert all(modes.get(caller) is not None for caller in ("0", "2", "9999", "new"))


def attempt(target: bytes = b"/api/v1/pods", *, wanted_user: UserInfo = ALICE) -> Attempt:
    request_info = parse_request_info(b"GET", target)
    return replace(ATTEMPT, wanted_user=wanted_user, request_info=request_info)


def test_result_on_a_long_path_is_not_cacheable() -> None:
    assert is_result_cacheable(attempt(b"/api/v1/" + b"a" * 248))
    assert not is_result_cacheable(attempt(b"/api/v1/" + b"a" * 249))


@pytest.mark.parametrize("selector", [b"labelSelector=app%20in%20(", b"fieldSelector=a%3D"])
def test_result_with_a_long_selector_is_not_cacheable(selector: bytes) -> None:
    end = b")" if b"(" in selector else b""

    assert is_result_cacheable(attempt(b"/api/v1/pods?" + selector + b"web" + end))
    long = b",".join(b"v%d" % number for number in range(200)) if end else b"v" * 9000
    assert not is_result_cacheable(attempt(b"/api/v1/pods?" + selector + long + end))


def test_result_with_a_selector_that_is_not_understood_is_not_cacheable() -> None:
    assert not is_result_cacheable(attempt(b"/api/v1/pods?labelSelector=(("))


def test_result_of_legacy_impersonation_is_not_cacheable() -> None:
    assert not is_result_cacheable(replace(ATTEMPT, mode=ImpersonationMode.LEGACY))


def test_result_for_a_large_user_is_not_cacheable() -> None:
    few, many = ("a" * 20,) * 100, ("a" * 80,) * 100
    short = tuple(f"{number}" for number in range(200))

    assert is_result_cacheable(attempt(wanted_user=UserInfo("alice", groups=few)))
    for large in (
        UserInfo("alice", groups=many),
        UserInfo("alice", groups=short),
        UserInfo("alice", extra=(("a", many),)),
        UserInfo("alice", extra=(("a" * 8192, ("b",)),)),
    ):
        assert not is_result_cacheable(attempt(wanted_user=large))


PERMIT = permit_self(BOB)


def request(name: str) -> ImpersonatedRequest:
    return ImpersonatedRequest(BOB, UserInfo(name), LIST_PODS, is_upgrade=False)


def test_result_is_found_for_an_equal_request_only() -> None:
    results, result = ResultCache(), AuthorizationResult(PERMIT, lambda: True)
    results.add(request("alice"), result)

    assert results.find(request("alice")) is result
    for other in (
        BOB,
        request("carol"),
        request("alice")._replace(is_upgrade=True),
        request("alice")._replace(request_info=GET_SECRET),
        request("alice")._replace(caller=Caller(UserInfo("bob"))),
        request("alice")._replace(caller=replace(BOB, looked_up_node="n1")),
    ):
        assert results.find(other) is None


@pytest.mark.parametrize("recheck", [None, lambda: False])
def test_result_that_is_not_confirmed_is_not_found(recheck: Callable[[], bool] | None) -> None:
    results = ResultCache()

    results.add(BOB, AuthorizationResult(PERMIT, recheck))

    assert results.find(BOB) is None


def test_number_of_results_is_bounded() -> None:
    results, result = ResultCache(), AuthorizationResult(PERMIT, lambda: True)

    for number in range(5000):
        results.add(request(f"{number}"), result)

    found = [number for number in range(5000) if results.find(request(f"{number}")) is not None]
    assert 0 < len(found) <= 4096
    assert found[-1] == 4999
