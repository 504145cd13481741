"""One measure for each name, filled again at a steady rate."""

import pytest

from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.core.errors import TooManyRequests
from tests.support.clock import FakeClock

REFUSAL = "too many"


def test_a_burst_passes_and_the_next_question_waits() -> None:
    buckets = KeyedTokenBucket(RateLimit(per_second=1, burst=3), FakeClock(), rejection=REFUSAL)

    for _ in range(3):
        buckets.take("bob")

    with pytest.raises(TooManyRequests) as refused:
        buckets.take("bob")
    assert (refused.value.code, refused.value.retry_after_seconds) == (429, 1)
    assert refused.value.message == REFUSAL


def test_tokens_come_back_at_the_rate() -> None:
    clock = FakeClock()
    buckets = KeyedTokenBucket(RateLimit(per_second=2, burst=2), clock, rejection=REFUSAL)
    buckets.take("bob")
    buckets.take("bob")

    clock.advance(0.5)

    buckets.take("bob")
    with pytest.raises(TooManyRequests):
        buckets.take("bob")


def test_tokens_can_be_reserved_in_advance() -> None:
    clock = FakeClock()
    buckets = KeyedTokenBucket(RateLimit(per_second=10, burst=3), clock, rejection=REFUSAL)

    at_once = [round(buckets.reserve("calls"), 3) for _ in range(5)]
    other = buckets.reserve("other calls")
    clock.advance(60)
    later = [round(buckets.reserve("calls"), 3) for _ in range(4)]

    assert (at_once, other) == ([0.0, 0.0, 0.0, 0.1, 0.2], 0.0)
    assert later == [0.0, 0.0, 0.0, 0.1]


def test_a_quiet_time_fills_no_more_than_the_burst() -> None:
    clock = FakeClock()
    buckets = KeyedTokenBucket(RateLimit(per_second=10, burst=2), clock, rejection=REFUSAL)
    buckets.take("bob")
    clock.advance(3600)

    buckets.take("bob")
    buckets.take("bob")

    with pytest.raises(TooManyRequests):
        buckets.take("bob")


def test_one_callers_flood_costs_another_nothing() -> None:
    buckets = KeyedTokenBucket(RateLimit(per_second=1, burst=1), FakeClock(), rejection=REFUSAL)
    buckets.take("bob")
    with pytest.raises(TooManyRequests):
        buckets.take("bob")

    buckets.take("alice")


def test_what_is_given_back_can_be_spent_again() -> None:
    buckets = KeyedTokenBucket(RateLimit(per_second=1, burst=1), FakeClock(), rejection=REFUSAL)
    buckets.take("bob")

    buckets.refund("bob")

    buckets.take("bob")
    with pytest.raises(TooManyRequests):
        buckets.take("bob")


def test_giving_back_fills_no_more_than_the_burst() -> None:
    buckets = KeyedTokenBucket(RateLimit(per_second=1, burst=1), FakeClock(), rejection=REFUSAL)

    buckets.refund("bob")

    buckets.take("bob")
    with pytest.raises(TooManyRequests):
        buckets.take("bob")
