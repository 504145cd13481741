"""Authenticator of bearer tokens: token reviews with a short-lived cache.

Tokens are never stored: the cache key is a keyed hash. The key of the hash lives as long as the
process.
A definite rejection is cached as well, but for two seconds only. Otherwise a client that repeats an
invalid token would turn every request into a review. No other outcome is cached: without a definite
result, the next review may end differently.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from proxy.authentication.token_review import TokenReviewQueue
from proxy.concurrency.rate_limit import address_key
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import TokenTooLarge, Unauthorized
from proxy.core.ttl_cache import TTLCache
from proxy.core.userinfo import AuthenticationResult, Caller
from proxy.telemetry.metrics.authentication import TokenMetrics

_MAX_CACHED_TOKENS = 32_768
_REJECTION_TTL_SECONDS = 2.0


@dataclass(slots=True, eq=False)
class _Review:
    """One review, and the number of requests that wait for it."""

    task: asyncio.Task[Caller | None]
    sent: asyncio.Event
    """Set when the review has got a slot."""
    waiting: int = 0


class CachedTokenAuthenticator:
    """Reviews each token once at a time, and caches successes for `success_ttl_seconds`.

    A review that no request waits for any more is cancelled while it waits for a slot. Once it is
    sent it is not cancelled, because that would cost a connection. The memory of such reviews is
    bounded by the number in flight and by `token_bytes`.
    """

    def __init__(
        self,
        queue: TokenReviewQueue,
        *,
        token_bytes: int,
        success_ttl_seconds: float,
        clock: Callable[[], float],
        tasks: TaskSet,
        metrics: TokenMetrics,
    ) -> None:
        """`token_bytes`: the largest token that is reviewed."""
        self._queue = queue
        self._token_bytes = token_bytes
        self._tasks = tasks
        self._hash_key = secrets.token_bytes(32)
        self._callers = TTLCache[bytes, Caller](_MAX_CACHED_TOKENS, success_ttl_seconds, clock)
        self._rejected = TTLCache[bytes, bool](_MAX_CACHED_TOKENS, _REJECTION_TTL_SECONDS, clock)
        self._in_flight: dict[bytes, _Review] = {}
        self._metrics = metrics

    async def authenticate(self, token: bytes, *, address: str) -> AuthenticationResult:
        """Return the caller of a token; `address` is the source of the request.

        Raises Unauthorized if the token is rejected, UpstreamUnavailable if there is no result,
        TooManyRequests above a limit, and TokenTooLarge for a token that is not reviewed at all.
        """
        if len(token) > self._token_bytes:
            self._queue.count_oversized()
            raise TokenTooLarge(f"the bearer token is larger than {self._token_bytes} bytes")
        # The token cannot be recovered from its key.
        key = hashlib.blake2b(token, key=self._hash_key, digest_size=32).digest()
        caller = self._callers.get(key)
        if caller is not None or self._rejected.get(key):
            self._metrics.hits += 1
        else:
            self._metrics.misses += 1
            caller = await self._review_once(key, token, address)
        if caller is None:
            raise Unauthorized
        return AuthenticationResult(caller, partial(self._is_still_caller, key, caller))

    def _is_still_caller(self, key: bytes, caller: Caller) -> bool:
        """Return whether a token's review is cached, and still the one that returned the caller."""
        is_cached = self._callers.get(key) is caller
        if is_cached:
            self._metrics.hits += 1
        return is_cached

    async def _review_once(self, key: bytes, token: bytes, address: str) -> Caller | None:
        review = self._in_flight.get(key)
        if review is None:
            review = self._begin(key, token, address)
        review.waiting += 1
        try:
            # Shielded: a client that disconnects must not cancel the review for others.
            return await asyncio.shield(review.task)
        finally:
            review.waiting -= 1
            if not review.waiting and not review.sent.is_set():
                self._remove(key, review)
                review.task.cancel()

    def _begin(self, key: bytes, token: bytes, address: str) -> _Review:
        text = _decode(token)
        origin = address_key(address)
        # Before a task is created, so that a flood costs as little as possible.
        self._queue.take_rate_limit(origin)
        sent = asyncio.Event()
        task = self._tasks.start(self._review(key, text, origin, sent))
        review = self._in_flight[key] = _Review(task, sent)
        task.add_done_callback(lambda _: self._remove(key, review))
        return review

    def _remove(self, key: bytes, review: _Review) -> None:
        # Another review of the same token may have started since this one was cancelled.
        if self._in_flight.get(key) is review:
            del self._in_flight[key]

    async def _review(
        self, key: bytes, token: str, origin: str, sent: asyncio.Event
    ) -> Caller | None:
        user = await self._queue.review(token, origin=origin, when_sent=sent.set)
        if user is None:
            self._rejected.put(key, value=True)
            return None
        caller = Caller(user)
        self._callers.put(key, caller)
        return caller


def _decode(token: bytes) -> str:
    try:
        return token.decode("ascii")
    except UnicodeDecodeError:
        # The cause is dropped because it contains the token.
        raise Unauthorized from None
