"""What is due when, from the signal on."""

import pytest

from proxy.serving.drain_schedule import (
    FIRST_REQUEST_SECONDS,
    TEARDOWN_SECONDS,
    ConnectionCounts,
    DrainSchedule,
    DrainTimes,
)

BEGUN = 1000.0
TIMES = DrainTimes(delay_seconds=10, watch_window_seconds=10, grace_seconds=25)
CLOSES = BEGUN + 10


def endings(
    schedule: DrainSchedule, streams: int, *, every: float, since: float = 0
) -> list[float]:
    """Play looks until every stream has ended; return when each did, from the closing on."""
    ended: list[float] = []
    now = since
    while len(ended) < streams:
        now += every
        due = schedule.streams_due(CLOSES + now, streams - len(ended))
        schedule.streams_ended(due)
        ended += [now] * due
    return ended


def test_new_clients_are_let_in_for_the_delay_and_no_longer() -> None:
    schedule = DrainSchedule(TIMES, BEGUN)

    assert schedule.is_accepting(BEGUN)
    assert schedule.is_accepting(CLOSES - 0.01)
    assert not schedule.is_accepting(CLOSES)


@pytest.mark.parametrize("streams", [10, 200, 5000])
def test_streams_end_evenly_over_the_window(streams: int) -> None:
    times = endings(DrainSchedule(TIMES, BEGUN), streams, every=0.05)

    per_second = [sum(second <= one < second + 1 for one in times) for second in range(10)]
    assert max(per_second) - min(per_second) <= 2 + streams // 100
    assert max(times) <= 10.05


def test_no_stream_is_left_when_the_window_ends() -> None:
    for streams in (1, 2, 3):
        assert endings(DrainSchedule(TIMES, BEGUN), streams, every=0.3)[-1] <= 10.3


def test_who_joins_late_is_spread_over_what_is_left() -> None:
    schedule = DrainSchedule(TIMES, BEGUN)
    assert schedule.streams_due(CLOSES + 5, 0) == 0

    times = endings(schedule, 100, every=0.05, since=5)

    per_second = [sum(second <= one < second + 1 for one in times) for second in range(5, 10)]
    assert max(per_second) - min(per_second) <= 3


def test_what_could_not_be_ended_stays_due() -> None:
    schedule = DrainSchedule(TIMES, BEGUN)
    assert schedule.streams_due(CLOSES + 5, 10) == 5
    schedule.streams_ended(2)

    assert schedule.streams_due(CLOSES + 5.01, 8) == 3


def test_an_empty_window_makes_everything_due_at_once() -> None:
    schedule = DrainSchedule(DrainTimes(0, 0, 25), BEGUN)

    assert schedule.streams_due(BEGUN, 7) == 7


@pytest.mark.parametrize(
    "counts",
    [ConnectionCounts(ordinary=1), ConnectionCounts(streams=1), ConnectionCounts(tunnels=1)],
    ids=["ordinary", "stream", "tunnel"],
)
def test_what_is_under_way_is_waited_for_until_the_grace_period_nears_its_end(
    counts: ConnectionCounts,
) -> None:
    schedule = DrainSchedule(TIMES, BEGUN)
    last = BEGUN + 25 - TEARDOWN_SECONDS

    assert not schedule.is_over(CLOSES, counts)
    assert not schedule.is_over(last - 0.01, counts)
    assert schedule.is_over(last, counts)


def test_when_nobody_is_left_it_is_over() -> None:
    assert DrainSchedule(TIMES, BEGUN).is_over(CLOSES, ConnectionCounts())


def test_who_was_accepted_at_the_last_moment_has_a_moment_to_ask() -> None:
    schedule = DrainSchedule(TIMES, BEGUN)
    newcomer = ConnectionCounts(unused=1)

    assert not schedule.is_over(CLOSES + FIRST_REQUEST_SECONDS - 0.01, newcomer)
    assert schedule.is_over(CLOSES + FIRST_REQUEST_SECONDS, newcomer)
