"""Does the API server answer us? Asked all the time: readiness must not wait for a request.

The question is the canary's. An answer means that the API server can be reached, accepts the
reviewer's credential, and reviews access. One failure says little; one success says everything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

log = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0
_UNSETTLED_SECONDS = 0.5
_FAILURES = 2
_FAULT = "the API server does not answer"


class ReachabilityCounter(Protocol):
    """Learns the answer."""

    def upstream_answers(self, *, reachable: bool) -> None:
        """Tell whether the API server answers."""
        ...


class Reachability:
    """Asks again and again, and knows whether there were answers lately."""

    def __init__(self, ask: Callable[[], Awaitable[bool]], counter: ReachabilityCounter) -> None:
        """`ask` tells whether there was an answer, in bounded time."""
        self._ask = ask
        self._counter = counter
        self._failures = _FAILURES  # until somebody has answered, nobody does
        counter.upstream_answers(reachable=False)

    def fault(self) -> str | None:
        """Tell what is wrong, for who asks whether we are ready."""
        return _FAULT if self._failures >= _FAILURES else None

    async def run(self) -> None:
        """Ask for as long as it runs; more often while something is wrong."""
        while True:
            await self.look()
            await asyncio.sleep(_UNSETTLED_SECONDS if self._failures else _EVERY_SECONDS)

    async def look(self) -> None:
        """Ask once."""
        was_reachable = self.fault() is None
        self._failures = 0 if await self._ask() else self._failures + 1
        is_reachable = self.fault() is None
        if is_reachable == was_reachable:
            return
        self._counter.upstream_answers(reachable=is_reachable)
        if is_reachable:
            log.info("API server answers")
        else:
            log.warning("API server does not answer")
