"""A bounded number of places, handed to callers in turn.

With one line for all, a caller that floods would make everybody wait behind its whole flood. Here
each caller has a line of its own, and the lines take turns.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairTurns:
    """Lets so many in at a time; who waits longest among the callers' first ones comes next."""

    def __init__(self, places: int) -> None:
        self._free = places
        # In the order of their turns. A caller is in it only while somebody waits in its line.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn_of(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place and hold it for the time of the context."""
        await self._enter(caller)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, caller: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()  # The place was given in the very moment its owner gave up.
            raise

    def _leave(self) -> None:
        """Give the place to the next in turn, or keep it free if nobody waits."""
        while self._lines:
            caller, line = next(iter(self._lines.items()))
            turn = line.popleft()
            del self._lines[caller]
            if line:
                self._lines[caller] = line  # behind every other caller
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1
