"""Scheduling of input from unauthenticated clients.

A step of a handshake costs up to a third of a millisecond, mostly for its signature, and a client
causes one with a packet of 500 bytes. A head of 1 MiB costs about 3 ms. Without a bound, hundreds
of both that arrive together would be processed in one iteration of the event loop. Every request of
an authenticated client would wait for all of them.

Input from clients without an authenticated request therefore gets a time slice of each iteration.
What does not fit waits for later iterations. Addresses are served round-robin, so a flood from one
address delays its own input.
"""

import asyncio
from collections import deque
from collections.abc import Callable

Step = Callable[[], None]


class QueuedStep:
    """A queued step; cancelling it releases the objects it refers to."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step: Step | None = step

    def cancel(self) -> None:
        """Skip the step; may be called at any time."""
        self._step = None

    def run(self) -> None:
        """Run the step, unless it was cancelled."""
        step, self._step = self._step, None
        if step is not None:
            step()


class UnauthenticatedInputScheduler:
    """Decides which steps run now, and runs the others later."""

    def __init__(self, slice_seconds: float, clock: Callable[[], float]) -> None:
        """Give all steps together `slice_seconds` of each iteration; a step is never divided."""
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._spent_seconds = 0.0
        self._is_scheduled = False
        self._is_running = False
        # In round-robin order. An address is present only while it has a queued step.
        self._queues: dict[str, deque[QueuedStep]] = {}

    def set_slice(self, slice_seconds: float) -> None:
        """Use another slice from now on."""
        self._slice_seconds = slice_seconds

    @property
    def has_time(self) -> bool:
        """Whether a step may run now; a new step never runs before queued ones."""
        return self._is_running or (not self._queues and self._spent_seconds < self._slice_seconds)

    def start_step(self) -> float:
        """Return the start time to pass to `end_step`."""
        return self._clock()

    def end_step(self, started: float) -> None:
        """Count the time of one step against this loop iteration."""
        self._spent_seconds += self._clock() - started
        self._schedule()

    def enqueue(self, origin: str, step: Step) -> QueuedStep:
        """Queue a step for a later iteration; the caller accounts for its memory.

        A caller that no longer needs the step cancels it. The queue may be seconds long, and would
        otherwise keep closed connections in memory for that time.
        """
        waiting = QueuedStep(step)
        self._queues.setdefault(origin, deque()).append(waiting)
        self._schedule()
        return waiting

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_queued)

    def _run_queued(self) -> None:
        self._is_scheduled = False
        self._spent_seconds = 0.0
        self._is_running = True
        try:
            while self._queues and self._spent_seconds < self._slice_seconds:
                self._run_next()
        finally:
            self._is_running = False
            # Also after a step that raised: nothing else would schedule the remaining steps.
            if self._queues:
                self._schedule()

    def _run_next(self) -> None:
        origin, queue = next(iter(self._queues.items()))
        waiting = queue.popleft()
        del self._queues[origin]
        if queue:
            self._queues[origin] = queue  # after every other address
        started = self._clock()
        try:
            waiting.run()
        finally:
            self._spent_seconds += self._clock() - started
