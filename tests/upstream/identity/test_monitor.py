import asyncio

from proxy.upstream.identity.monitor import RecheckSignal


def test_denied_reviews_request_one_check_per_interval() -> None:
    changed = asyncio.Event()
    signal = RecheckSignal(changed)

    signal.review_denied()
    first = changed.is_set()
    changed.clear()
    signal.review_denied()
    second = changed.is_set()
    signal.allow()
    signal.review_denied()

    assert (first, second, changed.is_set()) == (True, False, True)
