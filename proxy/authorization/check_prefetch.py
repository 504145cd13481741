"""Prefetching of the access checks of one decision."""

import asyncio
from collections import deque
from collections.abc import Callable

from proxy.authorization.access_review import AccessReviewQueue
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.evaluation import Ask
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics

_MAX_CONCURRENT_CHECKS = 128
"""The largest number of concurrent checks of one request."""


class CheckPrefetcher:
    """The check results of one decision, some of them prefetched.

    Prefetching changes how long a decision takes, never its outcome. The evaluation still takes the
    results one by one in its own order, and stops where it would have stopped.
    """

    def __init__(
        self,
        reviewer: AccessReviewQueue,
        counter: ImpersonationMetrics,
        clock: Callable[[], float],
        *,
        has_modes: bool,
    ) -> None:
        self._reviewer = reviewer
        self._counter = counter
        self._clock = clock
        self._has_modes = has_modes
        self._mode: ImpersonationMode | None = None
        self._upcoming: deque[AccessCheck] = deque()
        self.count = 0
        self._prefetched: dict[AccessCheck, asyncio.Task[CheckResult]] = {}

    async def result_of(self, question: Ask) -> CheckResult:
        """Return the result of this check, and prefetch upcoming ones meanwhile."""
        started = self._clock()
        task = self._prefetched.pop(question.check, None) or self._reviewer.submit(question.check)
        self._add_upcoming(question)
        self._prefetch(question.check)
        result = await asyncio.shield(task)
        self.count += 1
        if self._has_modes:
            self._counter.check_completed(
                question.mode, allowed=result.allowed, seconds=self._clock() - started
            )
        return result

    def close(self) -> None:
        """Count unused reviews; they end by themselves, and their number is bounded."""
        if self._prefetched:
            self._counter.reviews_unused(len(self._prefetched))

    def _add_upcoming(self, question: Ask) -> None:
        if question.mode is not self._mode:
            # The previous attempt is over; the checks it announced are not needed.
            self._mode = question.mode
            self._upcoming.clear()
        self._upcoming.extend(question.upcoming)

    def _prefetch(self, current: AccessCheck) -> None:
        # A check that occurs twice is prefetched once; the second time it is reviewed when needed.
        while self._upcoming and len(self._prefetched) < _MAX_CONCURRENT_CHECKS - 1:
            check = self._upcoming.popleft()
            if check != current and check not in self._prefetched:
                self._prefetched[check] = self._reviewer.submit(check)
