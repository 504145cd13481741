"""Results are reused only if every check gives the same result again."""

from collections.abc import Callable

import pytest

from proxy.core.impersonation.permit import AuthorizationResult, permit_self
from proxy.core.request_cache import RequestCache, RequestResults
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo
from proxy.pipeline.request_cache import reusable_results, store_results

BOB = Caller(UserInfo("bob"))
PIPELINE = object()
GET_POD = parse_request_info(b"GET", b"/api/v1/namespaces/n/pods/p")
WATCH_PODS = parse_request_info(b"GET", b"/api/v1/pods?watch=1")


def yes() -> bool:
    return True


def no() -> bool:
    return False


def fails() -> bool:
    raise ZeroDivisionError


def results(
    same_caller: Callable[[], bool] | None = yes, permitted: Callable[[], bool] | None = yes
) -> RequestResults:
    return RequestResults(
        PIPELINE,
        GET_POD,
        AuthenticationResult(BOB, same_caller),
        AuthorizationResult(permit_self(BOB), permitted),
    )


def stored(found: RequestResults) -> RequestCache:
    cache = RequestCache()
    store_results(cache, found)
    return cache


def test_results_are_reused_while_both_checks_confirm_them() -> None:
    found = results()

    assert reusable_results(stored(found), pipeline=PIPELINE) is found


@pytest.mark.parametrize(("same_caller", "permitted"), [(no, yes), (yes, no), (fails, yes)])
def test_results_are_not_reused_if_a_check_does_not_confirm_them(
    same_caller: Callable[[], bool], permitted: Callable[[], bool]
) -> None:
    assert reusable_results(stored(results(same_caller, permitted)), pipeline=PIPELINE) is None


def test_results_of_another_pipeline_are_not_reused() -> None:
    assert reusable_results(stored(results()), pipeline=object()) is None


def test_head_without_cache_has_no_results() -> None:
    store_results(None, results())

    assert reusable_results(None, pipeline=PIPELINE) is None
    assert reusable_results(RequestCache(), pipeline=PIPELINE) is None


@pytest.mark.parametrize(("same_caller", "permitted"), [(None, yes), (yes, None)])
def test_results_without_a_check_replace_stored_ones_by_none(
    same_caller: Callable[[], bool] | None, permitted: Callable[[], bool] | None
) -> None:
    cache = stored(results())
    store_results(cache, results(same_caller, permitted))

    assert cache.results is None


def test_results_of_a_long_running_request_are_not_stored() -> None:
    assert stored(results()._replace(request_info=WATCH_PODS)).results is None
