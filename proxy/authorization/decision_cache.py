"""Cache of allowed impersonations: successes only, with a short TTL and a bounded size.

Denials are never cached, so a new grant works at once. The TTL starts when an entry is written, and
use does not extend it: a revoked grant stops working within the TTL. For identity entries it is
twice the TTL, because such an entry can serve one last request that is then cached as a whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from proxy.core.impersonation.cache_keys import request_key, user_key
from proxy.core.impersonation.checks import Attempt
from proxy.core.impersonation.evaluation import CacheScope
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import AuthorizationResult
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.ttl_cache import TTLCache
from proxy.core.userinfo import Caller, UserInfo

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
        # Returns True if an attempt with this request key was allowed within the TTL. It is called
        # for every request, so it is bound without a method in between. So is `ModeCache.get`.
        self.contains_request: Callable[[bytes], bool | None] = self._requests.get

    def contains(self, attempt: Attempt, scope: CacheScope) -> bool:
        """Return whether this part of the attempt was allowed within the TTL."""
        cache, key = self._locate(attempt, scope)
        return cache.get(key) is True

    def add(self, attempt: Attempt, scope: CacheScope) -> None:
        """Cache that this part of the attempt was allowed."""
        cache, key = self._locate(attempt, scope)
        cache.put(key, value=True)

    def _locate(self, attempt: Attempt, scope: CacheScope) -> tuple[TTLCache[bytes, bool], bytes]:
        if scope is CacheScope.REQUEST:
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


@dataclass(frozen=True, slots=True)
class ImpersonationCaches:
    """The caches that outlive a request."""

    decisions: DecisionCache
    modes: ModeCache


class ImpersonatedRequest(NamedTuple):
    """Everything that a decision depends on besides rules, caches and restrictions."""

    caller: Caller
    wanted_user: UserInfo
    request_info: RequestInfo
    is_upgrade: bool


_MAX_RESULTS = 4096
_MAX_CACHED_PATH_LENGTH = 256
# Of wanted user and selectors: enough for about a hundred groups. The authenticator bounds callers.
# Many short strings are not small: each takes `_STRING_OVERHEAD_BYTES` besides its characters.
_MAX_CACHED_BYTES = 8192
_STRING_OVERHEAD_BYTES = 49


class ResultCache:
    """Results by request or caller, so that an equal request is not evaluated again.

    An entry permits nothing by itself: its recheck looks up the decision cache at every use, and
    never extends the TTL there.
    """

    def __init__(self) -> None:
        self._results: dict[ImpersonatedRequest | Caller, AuthorizationResult] = {}

    def find(self, request: ImpersonatedRequest | Caller) -> AuthorizationResult | None:
        """Return the result of an equal request if a new decision would give the same permit."""
        known = self._results.get(request)
        if known is None or known.recheck is None or not known.recheck():
            return None
        return known

    def add(self, request: ImpersonatedRequest | Caller, result: AuthorizationResult) -> None:
        """Cache a result that has a recheck; the number of entries is bounded."""
        if len(self._results) >= _MAX_RESULTS:
            self._results.clear()
        self._results[request] = result


def is_result_cacheable(attempt: Attempt) -> bool:
    """Return whether the result of an attempt may be cached, and is small enough for that."""
    request_info, user = attempt.request_info, attempt.wanted_user
    if not attempt.is_request_cacheable or len(request_info.path) > _MAX_CACHED_PATH_LENGTH:
        return False
    texts = [user.name, user.uid, *user.groups]
    for key, values in user.extra:
        texts += (key, *values)
    for requirement in request_info.fields:
        texts += requirement
    for key, operator, values in request_info.labels:
        texts += (key, operator, *values)
    return len(texts) * _STRING_OVERHEAD_BYTES + sum(map(len, texts)) <= _MAX_CACHED_BYTES
