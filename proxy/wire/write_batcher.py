"""Batched socket writes per event-loop iteration.

Each write wakes the peer, which may preempt this process immediately. With two requests in one
iteration, each would be interrupted by the other's peer. So all requests of an iteration are
processed first, and all writes are flushed at its end. If iterations have only one writer each, as
with a single client, writes are not delayed.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

# Large enough that preemptions are rare, small enough that the first writer does not wait long.
_MAX_WRITERS = 32
# After this many iterations with one writer each, the next write is expected to be the only one. It
# is then sent immediately, unless another was sent so within _MIN_INTERVAL_SECONDS.
_SINGLE_WRITER_ITERATIONS = 4
_MIN_INTERVAL_SECONDS = 50e-6


class BatchedWriter(Protocol):
    """A connection with unsent data."""

    def send_unsent(self) -> None:
        """Send the unsent data."""
        ...


class WriteBatcher:
    """The writers with unsent data in this iteration of an event loop."""

    __slots__ = (
        "_clock",
        "_last_checked",
        "_single_writer_iterations",
        "_writers",
        "expects_single_writer",
    )

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._writers: list[BatchedWriter] = []
        # Consecutive iterations with one writer, and the time of the previous `may_write_through`.
        self._single_writer_iterations = 0
        self._last_checked = -math.inf
        self.expects_single_writer = False
        """Whether recent iterations had one writer; `may_write_through` is useful only then."""

    def add(self, writer: BatchedWriter) -> None:
        """Schedule a writer for the end of this iteration at the latest."""
        writers = self._writers
        writers.append(writer)
        if len(writers) == 1:
            asyncio.get_running_loop().call_soon(self._flush)
        elif len(writers) >= _MAX_WRITERS:
            self._flush()

    def may_write_through(self) -> bool:
        """Return whether the caller may send now: no other call was made just before."""
        previous, self._last_checked = self._last_checked, self._clock()
        return self._last_checked - previous > _MIN_INTERVAL_SECONDS

    def _flush(self) -> None:
        """Flush every writer; a failure of one affects neither the others nor the caller."""
        writers, self._writers = self._writers, []
        self._single_writer_iterations = (
            self._single_writer_iterations + 1 if len(writers) == 1 else 0
        )
        self.expects_single_writer = self._single_writer_iterations >= _SINGLE_WRITER_ITERATIONS
        for writer in writers:
            try:
                writer.send_unsent()
            except Exception as error:  # noqa: BLE001 - must not fail another request
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "connection write failed", "exception": error}
                )


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def current_batcher() -> WriteBatcher:
    """Return the batcher of the running event loop."""
    return _batchers.setdefault(asyncio.get_running_loop(), WriteBatcher())
