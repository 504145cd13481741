"""What is written in one turn of the event loop, and leaves at its end.

A write wakes whoever waits for it, and who is woken up may take the processor from us at once: with
two requests in one turn each would be interrupted by the other's peer. So all of a turn are looked
at first, and then everything is sent in one go. A connection that is alone waits for nobody.
"""

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary

# So many that interruptions are few, and so few that the first of them does not wait for long.
_MOST_WAITING = 32


class Sender(Protocol):
    """Somebody who has something to send."""

    def send_unsent(self) -> None:
        """Send it."""
        ...


class Outbox:
    """Who has something to send in this turn of an event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Sender] = []

    def add(self, sender: Sender) -> None:
        """Let somebody send at the end of this turn, at the latest."""
        waiting = self._waiting
        waiting.append(sender)
        if len(waiting) == 1:
            asyncio.get_running_loop().call_soon(self._send_all)
        elif len(waiting) >= _MOST_WAITING:
            self._send_all()

    def _send_all(self) -> None:
        """Let everybody send; a fault of one is nobody else's, whoever happens to call us."""
        waiting, self._waiting = self._waiting, []
        for sender in waiting:
            try:
                sender.send_unsent()
            except Exception as error:  # noqa: BLE001 - told where nobody else's request fails
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a connection cannot send", "exception": error}
                )


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def current_outbox() -> Outbox:
    """Return the one outbox of the running event loop."""
    return _outboxes.setdefault(asyncio.get_running_loop(), Outbox())
