"""CPU time and memory of one case at sizes n, 2n and 4n, and the bars that they are held to.

Time is the CPU time of one thread and the smallest of five runs, so other load on the machine
hardly changes it. A case that is above a bar is measured once more before it counts.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass

MOST_GROWTH = 5.2
"""The largest t(4n)/t(n): 4 is linear, 16 quadratic."""
MOST_MILLISECONDS = 5.0
"""The most CPU time of the event loop that 64 KiB of input may cost."""
MOST_MEMORY_FACTOR = 64.0
"""The most bytes of memory in use for a byte of input."""
BAR_BYTES = 64 * 1024

_RUNS = 5
_SIZES = (16 * 1024, BAR_BYTES, 256 * 1024)
"""Where n is looked for; 4n is the largest head that is read at all."""
_TINY_BYTES = 1024
_CLEAR_NANOSECONDS = 2_000_000
# A run that takes this long is far above the bar; four more of them would say nothing new.
_SLOW_NANOSECONDS = 200_000_000

Run = Callable[[], int]
"""Do the work once, and return the CPU nanoseconds that it took."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to spend bytes. `prepare` returns the work on an input of about so many bytes."""

    name: str
    prepare: Callable[[int], Run]
    measures_memory: bool = True


@dataclass(frozen=True, slots=True)
class Figures:
    """What a case costs."""

    name: str
    milliseconds: float
    """CPU time for 64 KiB."""
    growth: float | None
    """t(4n)/t(n); None if 256 KiB take less than 2 ms."""
    from_bytes: int | None
    """The n of it."""
    memory_factor: float
    """Peak of memory allocated meanwhile, in bytes for a byte of input."""

    @property
    def faults(self) -> list[str]:
        """Return which bars are missed, in words."""
        found = []
        if self.milliseconds > MOST_MILLISECONDS:
            found.append(f"{self.milliseconds:.1f} ms for 64 KiB")
        if self.growth is not None and self.growth > MOST_GROWTH:
            found.append(f"t(4n)/t(n) = {self.growth:.1f} from {self.from_bytes} bytes")
        if self.memory_factor > MOST_MEMORY_FACTOR:
            found.append(f"{self.memory_factor:.0f} bytes of memory for a byte")
        return found

    def as_json(self) -> dict[str, object]:
        """Return the figures for a report."""
        return {**asdict(self), "faults": self.faults}


def measure(case: Case, *, repeats: bool = True) -> Figures:
    """Return what a case costs; one that misses a bar is measured once more."""
    times: dict[int, int] = {}
    figures = _measure(case, times)
    return _measure(case, times) if figures.faults and repeats else figures


def of_function(function: Callable[[], object]) -> Run:
    """Return a run of a function in the thread that measures."""

    def run() -> int:
        started = time.thread_time_ns()
        function()
        return time.thread_time_ns() - started

    return run


def _measure(case: Case, times: dict[int, int]) -> Figures:
    """Measure a case; `times` are the best of each size so far, and are made better."""
    size = _size_that_takes_time(case, times)
    growth = None
    if size is not None:
        for step in (2 * size, 4 * size):
            _improve(case, step, times)
        growth = times[4 * size] / times[size]
    return Figures(
        case.name,
        _milliseconds_of_bar(case, times),
        growth,
        size,
        _memory_factor(case) if case.measures_memory else 0.0,
    )


def _size_that_takes_time(case: Case, times: dict[int, int]) -> int | None:
    for size in _SIZES:
        # Two runs rule most sizes out. The best of all runs counts, which may be less.
        for runs in (2, _RUNS):
            _improve(case, size, times, runs=runs)
            if times[size] < _CLEAR_NANOSECONDS:
                break
        else:
            return size
    return None


def _improve(case: Case, size: int, times: dict[int, int], *, runs: int = _RUNS) -> None:
    best = _best(case.prepare(size), runs=runs)
    times[size] = min(best, times.get(size, best))


def _milliseconds_of_bar(case: Case, times: dict[int, int]) -> float:
    size = min(times)
    # What takes so long already at fewer bytes need not be waited for.
    if times[size] * BAR_BYTES / size > 20 * MOST_MILLISECONDS * 1e6:
        return times[size] * BAR_BYTES / size / 1e6
    if times.get(BAR_BYTES, _CLEAR_NANOSECONDS) >= _CLEAR_NANOSECONDS:
        _improve(case, BAR_BYTES, times)
    return times[BAR_BYTES] / 1e6


def _best(run: Run, *, runs: int = _RUNS) -> int:
    best = run()
    for _ in range(runs - 1):
        if best > _SLOW_NANOSECONDS:
            break
        best = min(best, run())
    return best


def _memory_factor(case: Case) -> float:
    """Return what bytes add to the memory of a small input, which every request takes."""
    return max(0, _peak_bytes(case, _SIZES[0]) - _peak_bytes(case, _TINY_BYTES)) / _SIZES[0]


def _peak_bytes(case: Case, size: int) -> int:
    run = case.prepare(size)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return max(0, peak - before)
