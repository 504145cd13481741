import logging
import time

import pytest

from proxy.audit.backends.buffer import EventBuffer
from tests.audit.counting import Counts, limits


class Sleeper:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def backlog(
    counts: Counts | None = None, *, events: int = 1000, size: int = 1_000_000
) -> EventBuffer:
    return EventBuffer("log", limits(events=events, size=size), counts or Counts(), lambda: None)


def test_events_come_out_in_order_up_to_a_number_and_a_size() -> None:
    waiting = backlog()
    for letter in b"abcdef":
        waiting.write(bytes([letter]) * 10)

    first = waiting.take(events=2, size=1000)
    second = waiting.take(events=100, size=25)
    too_big = waiting.take(events=100, size=1)

    assert list(first) == [b"a" * 10, b"b" * 10]
    assert list(second) == [b"c" * 10, b"d" * 10]
    assert list(too_big) == [b"e" * 10]


@pytest.mark.parametrize(
    ("events", "size"), [(3, 1_000_000), (1000, 30)], ids=["by number", "by size"]
)
def test_what_does_not_fit_is_counted_and_what_is_being_stored_takes_up_room(
    events: int, size: int
) -> None:
    counts = Counts()
    waiting = backlog(counts, events=events, size=size)
    for _ in range(2):
        waiting.write(b"x" * 10)
    waiting.take(events=2, size=1000)

    for _ in range(3):
        waiting.write(b"y" * 10)
    assert counts.lost == {"buffer-full": 2}
    waiting.mark_stored(2, 20)
    for _ in range(3):
        waiting.write(b"z" * 10)

    assert counts.lost == {"buffer-full": 3}
    assert (len(waiting), waiting.queued, counts.stored) == (3, 3, 2)


def test_there_is_room_until_half_is_taken() -> None:
    waiting = backlog(events=4)

    has_room = []
    for _ in range(2):
        waiting.write(b"1")
        has_room.append(waiting.below_high_water)
    waiting.take(events=1, size=10)
    waiting.mark_stored(1, 1)
    has_room.append(waiting.below_high_water)

    assert has_room == [True, False, True]


def test_the_backend_is_woken_once_and_never_left_asleep_with_work() -> None:
    sleeper = Sleeper()
    waiting = EventBuffer("log", limits(), Counts(), sleeper.wake)

    waiting.write(b"1")
    assert sleeper.woken == 0
    assert not waiting.mark_idle()
    waiting.take(events=1, size=10)
    assert waiting.mark_idle()
    waiting.write(b"2")
    waiting.write(b"3")

    assert sleeper.woken == 1


def test_trouble_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    counts = Counts()
    waiting = backlog(counts, events=1)
    waiting.write(b"1")

    for _ in range(3):
        waiting.mark_failed("write", "No space left on device")
        waiting.write(b"2")
    waiting.mark_stored(1, 1)

    assert [record.message for record in caplog.records] == [
        "audit backend failed",
        "audit event dropped",
        "audit backend recovered",
    ]
    assert (counts.failures, counts.lost) == ({"write": 3}, {"buffer-full": 3})
    assert not waiting.is_failing


def test_giving_up_counts_what_was_taken_as_well() -> None:
    counts = Counts()
    waiting = backlog(counts)
    for _ in range(5):
        waiting.write(b"x")
    waiting.take(events=2, size=10)

    waiting.discard_all("shutdown")
    waiting.discard_all("shutdown")

    assert counts.lost == {"shutdown": 5}
    assert len(waiting) == 0


def test_an_event_costs_the_event_loop_next_to_nothing() -> None:
    """Held against the cheapest thing of its kind, so that a busy machine does not matter."""
    line = b"x" * 1000
    rounds = 20_000

    def best_of(write: object, times: int = 7) -> float:
        assert callable(write)
        best = float("inf")
        for _ in range(times):
            began = time.perf_counter()
            for _ in range(rounds):
                write(line)
            best = min(best, time.perf_counter() - began)
        return best

    waiting = EventBuffer("log", limits(events=10**9, size=10**12), Counts(), lambda: None)
    calling = best_of(len)

    assert best_of(waiting.write) < 60 * calling
