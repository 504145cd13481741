"""What is written in one turn of the event loop, and leaves at its end.

A write wakes whoever waits for it, and who is woken up may take the processor from us at once: with
two requests in one turn each would be interrupted by the other's peer. So all of a turn are looked
at first, and then everything is sent in one go. Where turns have but one sender each, as with a
client that is alone, nobody waits.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

# So many that interruptions are few, and so few that the first of them does not wait for long.
_MOST_WAITING = 32
# After so many turns with one sender each the next is expected to be alone, too, and sends at once;
# unless another has done so just before.
_TURNS_ALONE = 4
_ALONE_SECONDS = 50e-6


class BatchedWriter(Protocol):
    """Somebody who has something to send."""

    def send_unsent(self) -> None:
        """Send it."""
        ...


class WriteBatcher:
    """Who has something to send in this turn of an event loop."""

    __slots__ = ("_clock", "_last", "_turns_alone", "_waiting", "expect_write")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._waiting: list[BatchedWriter] = []
        # How many turns in a row had but one sender, and when one last wanted not to wait.
        self._turns_alone = 0
        self._last = -math.inf
        self.expect_write = False
        """Whether turns had but one sender for a while; only then `is_alone` is worth asking."""

    def add(self, sender: BatchedWriter) -> None:
        """Let somebody send at the end of this turn, at the latest."""
        waiting = self._waiting
        waiting.append(sender)
        if len(waiting) == 1:
            asyncio.get_running_loop().call_soon(self._send_all)
        elif len(waiting) >= _MOST_WAITING:
            self._send_all()

    def may_write_through(self) -> bool:
        """Tell whether it is some time since anybody asked this: who asks may send at once."""
        last, self._last = self._last, self._clock()
        return self._last - last > _ALONE_SECONDS

    def _send_all(self) -> None:
        """Let everybody send; a fault of one is nobody else's, whoever happens to call us."""
        waiting, self._waiting = self._waiting, []
        self._turns_alone = self._turns_alone + 1 if len(waiting) == 1 else 0
        self.expect_write = self._turns_alone >= _TURNS_ALONE
        for sender in waiting:
            try:
                sender.send_unsent()
            except Exception as error:  # noqa: BLE001 - told where nobody else's request fails
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a connection cannot send", "exception": error}
                )


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def current_batcher() -> WriteBatcher:
    """Return the one outbox of the running event loop."""
    return _outboxes.setdefault(asyncio.get_running_loop(), WriteBatcher())
