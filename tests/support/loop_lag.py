"""How long this process kept its own event loop from running.

A task sleeps for a short period again and again, and a reference thread does the same. A delay of
the task is counted as far as this process caused it:

- A call that blocks the loop thread (`time.sleep`, a read from a slow disk) delays the task alone.
- A machine that does not run the process delays both, or keeps the loop thread in the run queue.
  Both are subtracted.
- Python code and C code that hold the GIL may delay both. So the CPU time that the process used
  during the delay is counted in any case.

Not counted: a C call that blocks without CPU time while it holds the GIL.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

_PERIOD_SECONDS = 0.005
# Python code in the loop thread delays the reference thread by the switch interval of 5 ms.
_SHORTEST_REFERENCE_DELAY_SECONDS = 0.05
_NANOSECONDS = 1e9

Interval = tuple[float, float]


@dataclass(slots=True)
class LoopLag:
    """The longest delays of a short sleep. They are known when the context has ended."""

    worst_seconds: float = 0.0
    """By this process."""
    worst_delay_seconds: float = 0.0
    """By any cause, a machine that did not run the process among them."""


@dataclass(frozen=True, slots=True)
class _Delay:
    interval: Interval
    cpu_seconds: float
    queued_seconds: float

    @property
    def seconds(self) -> float:
        due, woke = self.interval
        return woke - due

    def caused_by_process(self, reference_delays: list[Interval]) -> float:
        due, woke = self.interval
        shared_seconds = sum(
            max(0.0, min(woke, end) - max(due, start)) for start, end in reference_delays
        )
        blocked_seconds = self.seconds - max(shared_seconds, self.queued_seconds)
        return max(blocked_seconds, min(self.seconds, self.cpu_seconds))


@asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopLag]:
    """Measure the running loop until the context ends."""
    lag = LoopLag()
    delays: list[_Delay] = []
    has_ended = False

    async def watch() -> None:
        while not has_ended:
            due = time.monotonic() + _PERIOD_SECONDS
            cpu_before, queued_before = time.process_time(), _queued_seconds()
            await asyncio.sleep(_PERIOD_SECONDS)
            woke = time.monotonic()
            cpu_seconds = time.process_time() - cpu_before
            delays.append(_Delay((due, woke), cpu_seconds, _queued_seconds() - queued_before))

    with _reference_thread() as reference_delays:
        watching = asyncio.get_running_loop().create_task(watch())
        try:
            yield lag
        finally:
            # The last delay may not have ended.
            has_ended = True
            await watching
    lag.worst_delay_seconds = max(delay.seconds for delay in delays)
    lag.worst_seconds = max(delay.caused_by_process(reference_delays) for delay in delays)


@contextmanager
def _reference_thread() -> Iterator[list[Interval]]:
    """Return the delays of a thread that sleeps for the same period. They grow until the end."""
    delays: list[Interval] = []
    has_ended = threading.Event()

    def sleep_again() -> None:
        while not has_ended.is_set():
            due = time.monotonic() + _PERIOD_SECONDS
            has_ended.wait(_PERIOD_SECONDS)
            woke = time.monotonic()
            if woke - due >= _SHORTEST_REFERENCE_DELAY_SECONDS:
                delays.append((due, woke))

    thread = threading.Thread(target=sleep_again, name="loop lag reference")
    thread.start()
    try:
        yield delays
    finally:
        has_ended.set()
        thread.join()


def _queued_seconds() -> float:
    """Return for how long this thread was ready to run without a CPU; 0 if Linux does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / _NANOSECONDS
    except OSError:
        return 0.0
