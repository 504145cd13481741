"""What was allowed a moment ago. Successes only, for a short life, in bounded numbers.

A denial is never kept: a grant works at once. An entry's life runs from when it was written and
is not lengthened by use: a withdrawn grant stops working within that time (within twice that for
the identity part, whose entry can serve one last request that is then remembered whole).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from proxy.core.impersonation.cache_keys import RepeatableDecision, identity_key, request_key
from proxy.core.impersonation.checks import Attempt
from proxy.core.impersonation.evaluation import Allowed, Layer
from proxy.core.impersonation.modes import Mode
from proxy.core.impersonation.permit import Admission, Guards
from proxy.core.ttl_cache import ShortMemory

_REMEMBERED_MODES = 10_000


class DecisionMemory:
    """Attempts that succeeded: whole requests, and identity parts alone."""

    def __init__(
        self,
        *,
        ttl_seconds: float,
        legacy_ttl_seconds: float,
        entries: int,
        clock: Callable[[], float],
    ) -> None:
        self._requests = ShortMemory[bytes, bool](entries, ttl_seconds, clock)
        self._identities = ShortMemory[bytes, bool](entries, ttl_seconds, clock)
        self._legacy = ShortMemory[bytes, bool](entries, legacy_ttl_seconds, clock)
        # True if a whole attempt with this key was allowed within its life. Asked at every request,
        # so without a function of its own between; so is the mode of a caller below.
        self.recall_request: Callable[[bytes], bool | None] = self._requests.recall

    def knows(self, attempt: Attempt, layer: Layer) -> bool:
        """Tell whether this layer of the attempt was allowed within its life."""
        memory, key = self._place(attempt, layer)
        return memory.recall(key) is True

    def learn(self, attempt: Attempt, layer: Layer) -> None:
        """Remember that this layer of the attempt was allowed."""
        memory, key = self._place(attempt, layer)
        memory.learn(key, value=True)

    def forget_all(self) -> None:
        """Forget everything, as a change of the rules requires."""
        for memory in (self._requests, self._identities, self._legacy):
            memory.forget_all()

    def _place(self, attempt: Attempt, layer: Layer) -> tuple[ShortMemory[bytes, bool], bytes]:
        if layer is Layer.REQUEST:
            return self._requests, request_key(attempt)
        is_legacy = attempt.mode is Mode.LEGACY
        return self._legacy if is_legacy else self._identities, identity_key(attempt)


class ModeMemory:
    """The mode that last worked for each caller; it is tried first.

    More than a hint: since the first failure is what a client is told, and modes make different
    groups, history changes results. The native server is so, and so are we unless switched off.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._modes: dict[str, Mode] = {}
        # The mode that last worked for a caller, if any.
        self.recall: Callable[[str], Mode | None] = self._modes.get

    def learn(self, caller: str, mode: Mode) -> None:
        """Remember the mode that worked."""
        if not self._enabled:
            return
        self._modes.pop(caller, None)  # It goes to the end: the one not seen for longest is first.
        if len(self._modes) >= _REMEMBERED_MODES:
            del self._modes[next(iter(self._modes))]
        self._modes[caller] = mode

    def forget_all(self) -> None:
        """Forget everything, as a change of the rules requires."""
        self._modes.clear()


@dataclass(frozen=True, slots=True)
class Memory:
    """All that outlives a request."""

    decisions: DecisionMemory
    modes: ModeMemory

    def forget_all(self) -> None:
        """Forget everything, as a change of the rules requires."""
        self.decisions.forget_all()
        self.modes.forget_all()


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
