"""The one question before a request is forwarded: can what it does be written down?"""

import asyncio
from collections.abc import Callable, Sequence

from proxy.audit.backlog import Backlog, Mode
from proxy.core.errors import AuditUnavailable

_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.05


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

    def is_free(self) -> bool:
        """Tell whether nobody has to wait; costs next to nothing."""
        for backlog in self._backlogs:
            if backlog.is_failing:
                if backlog.mode is Mode.BLOCKING_STRICT:
                    return False
            elif not backlog.has_room:
                return False
        return True

    async def wait(self) -> None:
        """Return when a request may go on; AuditUnavailable when it may not."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + _PATIENCE_SECONDS
        while not self.is_free():
            is_late = clock() >= deadline
            if any(one.is_failing or (is_late and not one.has_room) for one in self._strict):
                self._when_refused()
                raise AuditUnavailable
            if is_late:
                return
            await asyncio.sleep(_LOOK_SECONDS)
