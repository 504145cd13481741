"""Bearer token authentication: TokenReview at the API server, with a short-lived cache.

Tokens are never stored: the cache key is a keyed hash. The key of the hash lives as long as the
process.
A definite rejection is cached as well, but for two seconds only. Otherwise a client that repeats an
invalid token would turn every request into a review. No other outcome is cached: without a definite
result, the next review may end differently.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.authentication.token_review_queue import TokenReviewQueue
from proxy.concurrency.rate_limit import address_key
from proxy.concurrency.task_set import TaskSet
from proxy.core.authorization.access_check import REVIEW_TOO_LARGE
from proxy.core.errors import TokenTooLarge, Unauthorized, UpstreamUnavailable
from proxy.core.ttl_cache import TTLCache
from proxy.core.userinfo import (
    Caller,
    UserInfo,
    make_extra,
    with_authenticated,
)

_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_MAX_CACHED_TOKENS = 32_768
_REJECTION_TTL_SECONDS = 2.0

# kube-apiserver never sends `authenticated: false`: it omits the field and sends an error. It sends
# this error if none of its token authenticators accepts the token, and none of them has failed.
_UNKNOWN_TOKEN = "invalid bearer token"  # noqa: S105 - an error message

# Errors of the transport, of HTTP, and of malformed responses.
_REVIEW_ERRORS = (
    ApiException,
    aiohttp.ClientError,
    AttributeError,
    KeyError,
    OSError,
    TimeoutError,
    TypeError,
    ValueError,
)


class KubernetesTokenReviewer:
    """Reviews tokens by TokenReview at the API server."""

    def __init__(self, client: ApiClient, *, audiences: Sequence[str] = ()) -> None:
        self._client = client
        self._audiences = list(audiences)

    async def review(self, token: str) -> UserInfo | None:
        """Return the token's user, or None if it is definitely rejected.

        Raises Unauthorized for any other result that is not a success, and UpstreamUnavailable if
        there is no result.
        """
        try:
            # Parsed as plain JSON: the library's model would read the string "false" as true.
            review = await self._client.call_api(
                _PATH,
                "POST",
                body=_token_review(token, self._audiences),
                auth_settings=["BearerToken"],
                response_types_map={200: "object", 201: "object"},
                _return_http_data_only=True,
            )
            return self._user(review["status"])
        except _REVIEW_ERRORS as error:
            if isinstance(error, ApiException) and error.status in REVIEW_TOO_LARGE:
                # The API server has responded: it does not accept this as a token, so this is not
                # an outage. The cause is dropped because it may contain the token.
                raise Unauthorized from None
            # Never a 401: the client would discard a token that may be valid.
            raise UpstreamUnavailable("the token cannot be reviewed") from error

    def _user(self, status: dict[str, object]) -> UserInfo | None:
        if _is_definite_rejection(status):
            return None
        if status.get("authenticated") is not True or status.get("error"):
            raise Unauthorized
        if not self._has_audience(status.get("audiences")):
            raise Unauthorized
        return _user_info(status.get("user"))

    def _has_audience(self, audiences: object) -> bool:
        """Return whether the token is valid for a configured audience.

        An API server without audience support returns none. Then this cannot be verified, and the
        token is rejected.
        """
        return not self._audiences or not set(self._audiences).isdisjoint(_strings(audiences))


def _is_definite_rejection(status: dict[str, object]) -> bool:
    """Return whether the token was checked and definitely rejected.

    Any other error may be a failure of the authenticator, such as a webhook timeout.
    """
    is_rejected = status.get("authenticated", False) is False
    return is_rejected and (
        status.get("error") == _UNKNOWN_TOKEN
        or ("authenticated" in status and not status.get("error"))
    )


def _token_review(token: str, audiences: Sequence[str]) -> dict[str, object]:
    specification: dict[str, object] = {"token": token}
    if audiences:
        specification["audiences"] = audiences
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": specification,
    }


def _user_info(user: object) -> UserInfo:
    if not isinstance(user, dict) or not user.get("username"):
        raise Unauthorized
    (name, uid) = _strings([user["username"], user.get("uid") or ""])
    extra = user.get("extra") or {}
    return UserInfo(
        name=name,
        uid=uid,
        groups=with_authenticated(_strings(user.get("groups"))),
        extra=make_extra({key: _strings(values) for key, values in extra.items()}),
    )


def _strings(values: object) -> list[str]:
    """Return a list of strings, or raise TypeError: a partial user info must not be used."""
    texts = [] if values is None else values
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError("not a list of strings")
    return texts


class CacheHitCounter(Protocol):
    """Hit and miss counts of the token cache.

    Plain numbers, because they change with every request that has a token.
    """

    hits: int
    misses: int


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
        lookups: CacheHitCounter,
    ) -> None:
        """`token_bytes`: the largest token that is reviewed."""
        self._queue = queue
        self._token_bytes = token_bytes
        self._tasks = tasks
        self._hash_key = secrets.token_bytes(32)
        self._callers = TTLCache[bytes, Caller](_MAX_CACHED_TOKENS, success_ttl_seconds, clock)
        self._rejected = TTLCache[bytes, bool](_MAX_CACHED_TOKENS, _REJECTION_TTL_SECONDS, clock)
        self._in_flight: dict[bytes, _Review] = {}
        self._lookups = lookups

    def cache_key(self, token: bytes) -> bytes:
        """Return the cache key of a token, from which the token cannot be recovered."""
        return hashlib.blake2b(token, key=self._hash_key, digest_size=32).digest()

    def cached_caller(self, key: bytes) -> Caller | None:
        """Return the caller of a token that was reviewed within the TTL, if any."""
        caller = self._callers.get(key)
        if caller is not None:
            self._lookups.hits += 1
        return caller

    async def authenticate(self, token: bytes, *, address: str) -> Caller:
        """Return the caller of a token; `address` is the source of the request.

        Raises Unauthorized if the token is rejected, UpstreamUnavailable if there is no result,
        TooManyRequests above a limit, and TokenTooLarge for a token that is not reviewed at all.
        """
        if len(token) > self._token_bytes:
            self._queue.count_oversized()
            raise TokenTooLarge(f"the bearer token is larger than {self._token_bytes} bytes")
        key = self.cache_key(token)
        caller = self._callers.get(key)
        if caller is not None or self._rejected.get(key):
            self._lookups.hits += 1
        else:
            self._lookups.misses += 1
            caller = await self._review_once(key, token, address)
        if caller is None:
            raise Unauthorized
        return caller

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
