"""Cache of allowed impersonations: successes only, with a short TTL and a bounded size.

Denials are never cached, so a new grant works at once. The TTL starts when an entry is written, and
use does not extend it: a revoked grant stops working within the TTL. For identity entries it is
twice the TTL, because such an entry can serve one last request that is then cached as a whole.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from proxy.core.impersonation.cache_keys import ReusableDecision, request_key, user_key
from proxy.core.impersonation.checks import Attempt
from proxy.core.impersonation.evaluation import Allowed, CacheScope
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import IdentityRestrictions, Permit
from proxy.core.ttl_cache import TTLCache

_MAX_CACHED_MODES = 10_000


class DecisionCache:
    """Allowed attempts: entries for whole requests, and entries for the identity part alone."""

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
        # True if an attempt with this request key was allowed within the TTL. It is looked up for
        # every request, so it is bound directly, without a method in between. `ModeCache.get` is
        # bound directly for the same reason.
        self.contains_request: Callable[[bytes], bool | None] = self._requests.get

    def contains(self, attempt: Attempt, layer: CacheScope) -> bool:
        """Return whether this layer of the attempt was allowed within the TTL."""
        cache, key = self._locate(attempt, layer)
        return cache.get(key) is True

    def add(self, attempt: Attempt, layer: CacheScope) -> None:
        """Cache that this layer of the attempt was allowed."""
        cache, key = self._locate(attempt, layer)
        cache.put(key, value=True)

    def clear(self) -> None:
        """Remove all entries, as a change of the rules requires."""
        for cache in (self._requests, self._identities, self._legacy):
            cache.clear()

    def _locate(self, attempt: Attempt, layer: CacheScope) -> tuple[TTLCache[bytes, bool], bytes]:
        if layer is CacheScope.REQUEST:
            return self._requests, request_key(attempt)
        is_legacy = attempt.mode is ImpersonationMode.LEGACY
        return self._legacy if is_legacy else self._identities, user_key(attempt)


class ModeCache:
    """The mode that last succeeded for each caller; it is tried first.

    This is more than a hint, because history changes results: the client receives the first
    failure, and modes produce different groups. kube-apiserver behaves the same way. The cache can
    be disabled.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._modes: dict[str, ImpersonationMode] = {}
        # The mode that last succeeded for a caller, if any.
        self.get: Callable[[str], ImpersonationMode | None] = self._modes.get

    def put(self, caller: str, mode: ImpersonationMode) -> None:
        """Cache the mode that succeeded."""
        if not self._enabled:
            return
        self._modes.pop(caller, None)  # Re-inserted at the end: the first entry is the oldest.
        if len(self._modes) >= _MAX_CACHED_MODES:
            del self._modes[next(iter(self._modes))]
        self._modes[caller] = mode

    def clear(self) -> None:
        """Remove all entries, as a change of the rules requires."""
        self._modes.clear()


@dataclass(frozen=True, slots=True)
class ImpersonationCaches:
    """The caches that outlive a request."""

    decisions: DecisionCache
    modes: ModeCache

    def clear(self) -> None:
        """Remove all entries, as a change of the rules requires."""
        self.decisions.clear()
        self.modes.clear()


_MAX_REUSABLE_DECISIONS = 4096
_MAX_REUSABLE_PATH_LENGTH = 256


class ReusableDecisions:
    """Decisions with a reusable plan: the plan of an equal request is the same.

    An entry permits nothing by itself: the decision cache is checked each time, and the TTL of its
    entries is not extended. A decision is kept only if the mode that is tried first is the one that
    was allowed. Its first and only check is then that lookup in the decision cache.
    """

    def __init__(self) -> None:
        self._decisions: dict[Hashable, ReusableDecision] = {}

    def find(self, request: Hashable) -> ReusableDecision | None:
        """Return the cached decision of an equal request, if any."""
        return self._decisions.get(request)

    def add(
        self,
        request: Hashable,
        allowed: Allowed,
        restrictions: IdentityRestrictions,
        permit: Permit,
    ) -> None:
        """Cache a decision if it is small; the size of entries and their number are bounded."""
        request_info = allowed.attempt.request_info
        has_selectors = bool(request_info.fields or request_info.labels)
        if has_selectors or len(request_info.path) > _MAX_REUSABLE_PATH_LENGTH:
            return
        if not allowed.attempt.wanted_user.is_cacheable:
            return
        if len(self._decisions) >= _MAX_REUSABLE_DECISIONS:
            self._decisions.clear()
        key = request_key(allowed.attempt)
        self._decisions[request] = ReusableDecision(key, restrictions, permit)
