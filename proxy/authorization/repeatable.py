"""Decisions that are made again and again, without making their plan again and again."""

from collections.abc import Hashable

from proxy.core.admission import Admission, Guards
from proxy.core.cache_keys import request_key
from proxy.core.evaluation import Allowed
from proxy.core.repeatable_decision import RepeatableDecision

_MOST_REPEATABLE = 4096
_LONGEST_REPEATABLE_PATH = 256


class RepeatableDecisions:
    """Decisions whose plan need not be made again: the plan of an equal request is the same.

    What is kept here permits nothing by itself: the memory of successes is asked each time, and
    its entries live no longer for it. A decision is kept only if the mode that is tried first is
    the one that was allowed, so that its first and only question is that one to memory.
    """

    def __init__(self) -> None:
        self._decisions: dict[Hashable, RepeatableDecision] = {}

    def find(self, request: Hashable) -> RepeatableDecision | None:
        """Return the decision of an equal request, if it was kept."""
        return self._decisions.get(request)

    def keep(
        self, request: Hashable, allowed: Allowed, guards: Guards, admission: Admission
    ) -> None:
        """Keep a decision, if it is small: few bytes each, and a bounded number."""
        action = allowed.attempt.action
        has_selectors = bool(action.fields or action.labels)
        if has_selectors or len(action.path) > _LONGEST_REPEATABLE_PATH:
            return
        if not allowed.attempt.wanted.is_short:
            return
        if len(self._decisions) >= _MOST_REPEATABLE:
            self._decisions.clear()
        key = request_key(allowed.attempt)
        self._decisions[request] = RepeatableDecision(key, guards, admission)
