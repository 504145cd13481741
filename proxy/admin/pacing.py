"""Turns on the event loop that are spaced in time.

The admin port shares its event loop with the data port. Without a pause between two pieces of its
work, clients that ask in a loop would take as much of the loop as they like.
"""

import asyncio
from collections import deque


class Pacing:
    """Gives turns in the order of asking, each followed by a pause."""

    def __init__(self) -> None:
        self._is_pausing = False
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()

    async def turn(self, pause_seconds: float) -> None:
        """Wait for a turn; the next one is given not before the pause is over."""
        if not self._is_pausing:
            self._pause(pause_seconds)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, pause_seconds))
        await turn

    def _pause(self, seconds: float) -> None:
        self._is_pausing = True
        asyncio.get_running_loop().call_later(seconds, self._next)

    def _next(self) -> None:
        self._is_pausing = False
        while self._waiting:
            turn, pause_seconds = self._waiting.popleft()
            # A cancelled wait costs no pause: connections that were closed meanwhile delay none.
            if not turn.done():
                turn.set_result(None)
                self._pause(pause_seconds)
                return
