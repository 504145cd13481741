"""What was allowed a moment ago. Successes only, for a short life, in bounded numbers.

A denial is never kept: a grant works at once. An entry's life runs from when it was written and
is not lengthened by use: a withdrawn grant stops working within that time (within twice that for
the identity part, whose entry can serve one last request that is then remembered whole).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from proxy.core.impersonation.cache_keys import ReusableDecision, request_key, user_key
from proxy.core.impersonation.checks import Attempt
from proxy.core.impersonation.evaluation import Allowed, CacheScope
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import IdentityRestrictions, Permit
from proxy.core.ttl_cache import TTLCache

_REMEMBERED_MODES = 10_000


class DecisionCache:
    """Attempts that succeeded: whole requests, and identity parts alone."""

    def __init__(
        self,
        *,
        ttl_seconds: float,
        legacy_ttl_seconds: float,
        entries: int,
        clock: Callable[[], float],
    ) -> None:
        self._requests = TTLCache[bytes, bool](entries, ttl_seconds, clock)
        self._identities = TTLCache[bytes, bool](entries, ttl_seconds, clock)
        self._legacy = TTLCache[bytes, bool](entries, legacy_ttl_seconds, clock)
        # True if a whole attempt with this key was allowed within its life. Asked at every request,
        # so without a function of its own between; so is the mode of a caller below.
        self.contains_request: Callable[[bytes], bool | None] = self._requests.get

    def contains(self, attempt: Attempt, layer: CacheScope) -> bool:
        """Tell whether this layer of the attempt was allowed within its life."""
        cache, key = self._place(attempt, layer)
        return cache.get(key) is True

    def add(self, attempt: Attempt, layer: CacheScope) -> None:
        """Remember that this layer of the attempt was allowed."""
        cache, key = self._place(attempt, layer)
        cache.put(key, value=True)

    def clear(self) -> None:
        """Forget everything, as a change of the rules requires."""
        for cache in (self._requests, self._identities, self._legacy):
            cache.clear()

    def _place(self, attempt: Attempt, layer: CacheScope) -> tuple[TTLCache[bytes, bool], bytes]:
        if layer is CacheScope.REQUEST:
            return self._requests, request_key(attempt)
        is_legacy = attempt.mode is ImpersonationMode.LEGACY
        return self._legacy if is_legacy else self._identities, user_key(attempt)


class ModeCache:
    """The mode that last worked for each caller; it is tried first.

    More than a hint: since the first failure is what a client is told, and modes make different
    groups, history changes results. The native server is so, and so are we unless switched off.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._modes: dict[str, ImpersonationMode] = {}
        # The mode that last worked for a caller, if any.
        self.get: Callable[[str], ImpersonationMode | None] = self._modes.get

    def put(self, caller: str, mode: ImpersonationMode) -> None:
        """Remember the mode that worked."""
        if not self._enabled:
            return
        self._modes.pop(caller, None)  # It goes to the end: the one not seen for longest is first.
        if len(self._modes) >= _REMEMBERED_MODES:
            del self._modes[next(iter(self._modes))]
        self._modes[caller] = mode

    def clear(self) -> None:
        """Forget everything, as a change of the rules requires."""
        self._modes.clear()


@dataclass(frozen=True, slots=True)
class ImpersonationCaches:
    """All that outlives a request."""

    decisions: DecisionCache
    modes: ModeCache

    def clear(self) -> None:
        """Forget everything, as a change of the rules requires."""
        self.decisions.clear()
        self.modes.clear()


_MOST_REPEATABLE = 4096
_LONGEST_REPEATABLE_PATH = 256


class ReusableDecisions:
    """Decisions whose plan need not be made again: the plan of an equal request is the same.

    What is kept here permits nothing by itself: the memory of successes is asked each time, and
    its entries live no longer for it. A decision is kept only if the mode that is tried first is
    the one that was allowed, so that its first and only question is that one to memory.
    """

    def __init__(self) -> None:
        self._decisions: dict[Hashable, ReusableDecision] = {}

    def find(self, request: Hashable) -> ReusableDecision | None:
        """Return the decision of an equal request, if it was kept."""
        return self._decisions.get(request)

    def keep(
        self,
        request: Hashable,
        allowed: Allowed,
        restrictions: IdentityRestrictions,
        permit: Permit,
    ) -> None:
        """Keep a decision, if it is small: few bytes each, and a bounded number."""
        request_info = allowed.attempt.request_info
        has_selectors = bool(request_info.fields or request_info.labels)
        if has_selectors or len(request_info.path) > _LONGEST_REPEATABLE_PATH:
            return
        if not allowed.attempt.wanted_user.is_cacheable:
            return
        if len(self._decisions) >= _MOST_REPEATABLE:
            self._decisions.clear()
        key = request_key(allowed.attempt)
        self._decisions[request] = ReusableDecision(key, restrictions, permit)
