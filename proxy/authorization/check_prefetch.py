"""The answers of one decision, asked for in time."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.evaluation import Ask
from proxy.core.impersonation.modes import ImpersonationMode

_AHEAD = 128
"""How many checks of one request are under way at most."""


class AccessReviewer(Protocol):
    """Answers checks."""

    def submit(self, check: AccessCheck) -> "asyncio.Task[CheckResult]":
        """Start asking, or join who asks the same."""
        ...


class CheckCounter(Protocol):
    """Counts the answers that decisions used, and those they did not."""

    def check_completed(self, mode: str, *, allowed: bool, seconds: float) -> None:
        """Count one answer that was used."""
        ...

    def reviews_unused(self, count: int) -> None:
        """Count answers that were fetched ahead and not needed."""
        ...


class CheckPrefetcher:
    """The answers of one decision, some of them asked for ahead.

    Asking ahead changes how long a decision takes, never what it is: the evaluation still takes
    the answers one by one in its own order, and stops where it would have stopped.
    """

    def __init__(
        self,
        reviewer: AccessReviewer,
        counter: CheckCounter,
        clock: Callable[[], float],
        *,
        has_modes: bool,
    ) -> None:
        self._reviewer = reviewer
        self._counter = counter
        self._clock = clock
        self._has_modes = has_modes
        self._mode: ImpersonationMode | None = None
        self._announced: deque[AccessCheck] = deque()
        self.count = 0
        self._ahead: dict[AccessCheck, asyncio.Task[CheckResult]] = {}

    async def result_of(self, question: Ask) -> CheckResult:
        """Return the answer to this question, and keep others coming meanwhile."""
        started = self._clock()
        asking = self._ahead.pop(question.check, None) or self._reviewer.submit(question.check)
        self._announce(question)
        self._top_up(question.check)
        result = await asyncio.shield(asking)
        self.count += 1
        if self._has_modes:
            self._counter.check_completed(
                question.mode, allowed=result.allowed, seconds=self._clock() - started
            )
        return result

    def close(self) -> None:
        """Count what was asked for nothing; it ends by itself and is bounded in number."""
        if self._ahead:
            self._counter.reviews_unused(len(self._ahead))

    def _announce(self, question: Ask) -> None:
        if question.mode is not self._mode:
            # The attempt before this one is over; what it announced will not be needed.
            self._mode = question.mode
            self._announced.clear()
        self._announced.extend(question.upcoming)

    def _top_up(self, current: AccessCheck) -> None:
        # A check that occurs twice is asked for once; the second time it is answered as it comes.
        while self._announced and len(self._ahead) < _AHEAD - 1:
            check = self._announced.popleft()
            if check != current and check not in self._ahead:
                self._ahead[check] = self._reviewer.submit(check)
