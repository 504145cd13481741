"""What becomes of a denial that is about us: an error of ours, told to operators."""

import logging
from collections.abc import Callable
from typing import Protocol

from proxy.core.errors import InternalError
from proxy.core.own_denial import missing_right, read_denial
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

# Every request may be denied for the same reason; it is told once in this time.
TOLD_AGAIN_SECONDS = 60.0
_MOST_TOLD = 100


class DenialCounter(Protocol):
    """Counts."""

    def own_right_missing(self) -> None:
        """Count a request that failed because we may not do something."""
        ...


class OwnDenials:
    """Tells denials about us from denials about whom we speak for."""

    def __init__(self, *, counter: DenialCounter, clock: Callable[[], float]) -> None:
        self._counter = counter
        self._clock = clock
        self._own_names: frozenset[str] = frozenset()
        self._told: dict[str, float] = {}

    def know(self, own_name: str) -> None:
        """Learn a name under which we forward. Earlier ones count, too: requests are under way."""
        self._own_names |= {own_name}

    def refusal(self, media_type: str, body: bytes) -> InternalError | None:
        """Return what a client is told in place of a denial about us; None if it is its own."""
        denial = read_denial(media_type, body)
        right = missing_right(denial, self._own_names) if denial is not None else None
        if right is None:
            return None
        self._counter.own_right_missing()
        self._tell(right)
        return InternalError(f"the proxy's own identity cannot {right}")

    def _tell(self, right: str) -> None:
        now = self._clock()
        if now < self._told.get(right, 0.0):
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[right] = now + TOLD_AGAIN_SECONDS
        log.error("own right missing", extra=fields(right=right))
