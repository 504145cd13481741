"""Freed memory: trimmed after growth, seldom, and only then."""

from proxy.runtime.maintenance import MemoryTrimmer, memory_trimmer
from tests.support.clock import FakeClock

MB = 1024 * 1024


class Heap:
    """A process that is as large as the test says, until it is trimmed."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.size = 100 * MB
        self.trims = 0
        self.freed = MemoryTrimmer(self.clock, resident_bytes=lambda: self.size, trim=self.trim)

    def trim(self) -> None:
        self.trims += 1
        self.size = 110 * MB

    def look_at(self, size: int, *, after: float) -> int:
        self.size = size
        self.clock.advance(after)
        self.freed.trim_if_due()
        return self.trims


def test_a_process_that_has_grown_is_trimmed() -> None:
    heap = Heap()

    assert heap.look_at(120 * MB, after=10) == 0
    assert heap.look_at(130 * MB, after=1) == 1


def test_growth_counts_from_the_last_trim_and_from_the_smallest_size_since() -> None:
    heap = Heap()
    assert heap.look_at(200 * MB, after=10) == 1

    assert heap.look_at(130 * MB, after=10) == 1
    assert heap.look_at(90 * MB, after=1) == 1
    assert heap.look_at(120 * MB, after=1) == 2


def test_a_process_is_not_trimmed_again_at_once() -> None:
    heap = Heap()
    assert heap.look_at(200 * MB, after=10) == 1

    assert heap.look_at(200 * MB, after=1) == 1
    assert heap.look_at(200 * MB, after=5) == 2


def test_this_process_can_be_trimmed() -> None:
    clock = FakeClock()
    freed = memory_trimmer(clock)
    assert freed is not None
    freed._size = 0
    clock.advance(10)

    freed.trim_if_due()

    assert freed._size > MB
