from collections.abc import Callable

import pytest

from proxy.core.impersonation.permit import AuthorizationResult, permit_self
from proxy.core.request_cache import RequestCache, RequestResults
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo

CALLER = Caller(UserInfo("bob"))

SLOTS = ("results", "outbound_head", "access_log_template", "event_template")


def test_a_new_request_cache_is_empty() -> None:
    cache = RequestCache()

    assert [getattr(cache, slot) for slot in SLOTS] == [None] * len(SLOTS)


def test_a_request_cache_has_no_slots_but_the_named_ones() -> None:
    """A component that stores a value under another name would share an untyped bag."""
    cache = RequestCache()

    assert RequestCache.__slots__ == tuple(sorted(SLOTS))
    with pytest.raises(AttributeError):
        cache.other = 1  # type: ignore[attr-defined]


def yes() -> bool:
    return True


def no() -> bool:
    return False


@pytest.mark.parametrize(
    ("same_caller", "permitted", "is_reusable", "is_confirmed"),
    [
        (yes, yes, True, True),
        (no, yes, True, False),
        (yes, no, True, False),
        (None, yes, False, False),
        (yes, None, False, False),
    ],
)
def test_results_hold_while_both_are_confirmed(
    same_caller: Callable[[], bool] | None,
    permitted: Callable[[], bool] | None,
    *,
    is_reusable: bool,
    is_confirmed: bool,
) -> None:
    results = RequestResults(
        "the pipeline",
        parse_request_info(b"GET", b"/version"),
        AuthenticationResult(CALLER, same_caller),
        AuthorizationResult(permit_self(CALLER), permitted),
    )

    assert (results.is_reusable, results.recheck()) == (is_reusable, is_confirmed)
