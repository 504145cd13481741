"""One measure for each name, filled again at a steady rate."""

import pytest

from proxy.concurrency.rate_limit import Ration, Rationing
from proxy.core.errors import TooManyRequests
from tests.support.clock import FakeClock

REFUSAL = "too many"


def test_a_burst_passes_and_the_next_question_waits() -> None:
    rationing = Rationing(Ration(per_second=1, burst=3), FakeClock(), refusal=REFUSAL)

    for _ in range(3):
        rationing.spend("bob")

    with pytest.raises(TooManyRequests) as refused:
        rationing.spend("bob")
    assert (refused.value.code, refused.value.retry_after_seconds) == (429, 1)
    assert refused.value.message == REFUSAL


def test_tokens_come_back_at_the_rate() -> None:
    clock = FakeClock()
    rationing = Rationing(Ration(per_second=2, burst=2), clock, refusal=REFUSAL)
    rationing.spend("bob")
    rationing.spend("bob")

    clock.advance(0.5)

    rationing.spend("bob")
    with pytest.raises(TooManyRequests):
        rationing.spend("bob")


def test_a_quiet_time_fills_no_more_than_the_burst() -> None:
    clock = FakeClock()
    rationing = Rationing(Ration(per_second=10, burst=2), clock, refusal=REFUSAL)
    rationing.spend("bob")
    clock.advance(3600)

    rationing.spend("bob")
    rationing.spend("bob")

    with pytest.raises(TooManyRequests):
        rationing.spend("bob")


def test_one_callers_flood_costs_another_nothing() -> None:
    rationing = Rationing(Ration(per_second=1, burst=1), FakeClock(), refusal=REFUSAL)
    rationing.spend("bob")
    with pytest.raises(TooManyRequests):
        rationing.spend("bob")

    rationing.spend("alice")


def test_what_is_given_back_can_be_spent_again() -> None:
    rationing = Rationing(Ration(per_second=1, burst=1), FakeClock(), refusal=REFUSAL)
    rationing.spend("bob")

    rationing.give_back("bob")

    rationing.spend("bob")
    with pytest.raises(TooManyRequests):
        rationing.spend("bob")


def test_giving_back_fills_no_more_than_the_burst() -> None:
    rationing = Rationing(Ration(per_second=1, burst=1), FakeClock(), refusal=REFUSAL)

    rationing.give_back("bob")

    rationing.spend("bob")
    with pytest.raises(TooManyRequests):
        rationing.spend("bob")
