"""The one question before a request is looked at: can what it does be written down?

It comes first, because whatever is found out about a request afterwards, a failed login too, may be
an event. So a backend that fails or is full gets no event of a request that came later, and keeps
its room for those that are under way.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from proxy.audit.backlog import Backlog, Mode
from proxy.core.errors import AuditUnavailable

_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.05
# What one request may leave behind: it was received, its answer has begun, it is over.
_EVENTS_OF_A_REQUEST = 3


class AuditRoom:
    """Holds requests back while a backend in a blocking mode is slow, or refuses them.

    In `blocking` nobody is refused: whoever has waited long enough goes on, and what the buffer
    cannot take then is lost and counted. In `blocking-strict` whoever has waited long enough, or
    meets a backend that fails, is refused before anything was done.
    """

    def __init__(self, backlogs: Sequence[Backlog], when_refused: Callable[[], None]) -> None:
        self._backlogs = [one for one in backlogs if one.mode is not Mode.BATCH]
        self._strict = [one for one in backlogs if one.mode is Mode.BLOCKING_STRICT]
        self._when_refused = when_refused
        # By their deadlines, the next one first: everybody is equally patient.
        self._waiting: deque[tuple[float, asyncio.Future[bool]]] = deque()
        self._is_looking = False

    def is_free(self) -> bool:
        """Tell whether nobody has to wait; costs next to nothing."""
        for backlog in self._backlogs:
            if backlog.is_failing:
                if backlog.mode is Mode.BLOCKING_STRICT:
                    return False
            elif not backlog.has_room:
                return False
        # Whoever waits goes first: there may be as many as there is room for.
        return not self._waiting

    async def wait(self) -> None:
        """Return when a request may go on; AuditUnavailable when it may not."""
        has_place = False
        if not self._is_refusing():
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[bool] = loop.create_future()
            self._waiting.append((loop.time() + _PATIENCE_SECONDS, turn))
            self._look_later()
            has_place = await turn
        is_too_slow = not has_place and any(not one.has_room for one in self._strict)
        if is_too_slow or self._is_refusing():
            self._when_refused()
            raise AuditUnavailable

    def _is_refusing(self) -> bool:
        return any(one.is_failing for one in self._strict)

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Let go whom there is room for, whoever is refused, and whoever has waited too long."""
        self._is_looking = False
        now = asyncio.get_running_loop().time()
        places = len(self._waiting) if self._is_refusing() else self._places()
        while self._waiting and (places > 0 or self._waiting[0][0] <= now):
            _, turn = self._waiting.popleft()
            if not turn.done():  # or else its client has left
                turn.set_result(places > 0)
                places -= 1
        if self._waiting:
            self._look_later()

    def _places(self) -> int:
        # In `blocking` a backend that fails holds nobody up.
        rooms = [one.room for one in self._backlogs if not one.is_failing]
        if not rooms:
            return len(self._waiting)
        return -(-min(rooms) // _EVENTS_OF_A_REQUEST)
