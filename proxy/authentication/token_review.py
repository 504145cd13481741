"""A bearer token becomes an identity: the API server reviews it, we remember a yes for a moment.

Tokens are never kept: the memory is keyed by a keyed hash whose key lives as long as the process.
A definite no is remembered, too, but for two seconds only, so that a client which repeats a bad
token does not turn every request into a review. Nothing else is: what is no clear answer may be
another one in the next moment.
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
_REMEMBERED_TOKENS = 32_768
_REFUSAL_TTL_SECONDS = 2.0

# The API server never says `false`: it leaves the word out and gives a reason. This one it gives if
# none of its ways to know tokens knows this one, and none of them had any trouble finding out.
_UNKNOWN_TOKEN = "invalid bearer token"  # noqa: S105 - the words of a refusal

# Errors of the transport, of HTTP, and of an answer that does not look like one.
_NO_ANSWER = (
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
    """Asks the API server by TokenReview."""

    def __init__(self, client: ApiClient, *, audiences: Sequence[str] = ()) -> None:
        self._client = client
        self._audiences = list(audiences)

    async def review(self, token: str) -> UserInfo | None:
        """Return the token's owner, or None for a definite no.

        Raises Unauthorized for anything else that is not a yes, UpstreamUnavailable for no answer.
        """
        try:
            # Read as plain JSON: the library's model would take the text "false" for a yes.
            review = await self._client.call_api(
                _PATH,
                "POST",
                body=_review(token, self._audiences),
                auth_settings=["BearerToken"],
                response_types_map={200: "object", 201: "object"},
                _return_http_data_only=True,
            )
            return self._owner(review["status"])
        except _NO_ANSWER as error:
            if isinstance(error, ApiException) and error.status in REVIEW_TOO_LARGE:
                # The API server answers. What it does not take as a token is nobody's, and no
                # outage. Without the cause, which may repeat the token.
                raise Unauthorized from None
            # Never a 401: the client would throw away a token that may be good.
            raise UpstreamUnavailable("the token cannot be reviewed") from error

    def _owner(self, status: dict[str, object]) -> UserInfo | None:
        if _is_definite_no(status):
            return None
        if status.get("authenticated") is not True or status.get("error"):
            raise Unauthorized
        if not self._is_for_us(status.get("audiences")):
            raise Unauthorized
        return _identity(status.get("user"))

    def _is_for_us(self, audiences: object) -> bool:
        """An API server that does not know audiences answers without any: then we cannot tell."""
        return not self._audiences or not set(self._audiences).isdisjoint(_texts(audiences))


def _is_definite_no(status: dict[str, object]) -> bool:
    """Tell whether the token was checked and found to be nobody's.

    Any other error may be a fault of who checks, a webhook that does not answer for example.
    """
    is_no = status.get("authenticated", False) is False
    return is_no and (
        status.get("error") == _UNKNOWN_TOKEN
        or ("authenticated" in status and not status.get("error"))
    )


def _review(token: str, audiences: Sequence[str]) -> dict[str, object]:
    specification: dict[str, object] = {"token": token}
    if audiences:
        specification["audiences"] = audiences
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": specification,
    }


def _identity(user: object) -> UserInfo:
    if not isinstance(user, dict) or not user.get("username"):
        raise Unauthorized
    (name, uid) = _texts([user["username"], user.get("uid") or ""])
    extra = user.get("extra") or {}
    return UserInfo(
        name=name,
        uid=uid,
        groups=with_authenticated(_texts(user.get("groups"))),
        extra=make_extra({key: _texts(values) for key, values in extra.items()}),
    )


def _texts(values: object) -> list[str]:
    """Return a list of texts, or raise: half an identity is none."""
    texts = [] if values is None else values
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError("not a list of texts")
    return texts


class Lookups(Protocol):
    """How often a review was remembered, and how often not.

    Plain numbers: they grow with every request that brings a token.
    """

    hits: int
    misses: int


@dataclass(slots=True, eq=False)
class _Review:
    """One review, and how many requests wait for it."""

    task: asyncio.Task[Caller | None]
    asked: asyncio.Event
    """Set when its turn has come."""
    waiting: int = 0


class CachedTokenAuthenticator:
    """Reviews each token once at a time and remembers a yes for `success_ttl_seconds`.

    A review that no request waits for any more is given up while it waits for its turn. Once the
    API server is asked it is not: that would cost a connection. What such reviews hold is bounded
    by their number in flight and by `token_bytes`.
    """

    def __init__(
        self,
        queue: TokenReviewQueue,
        *,
        token_bytes: int,
        success_ttl_seconds: float,
        clock: Callable[[], float],
        tasks: TaskSet,
        lookups: Lookups,
    ) -> None:
        """`token_bytes`: the largest token that is reviewed."""
        self._queue = queue
        self._token_bytes = token_bytes
        self._tasks = tasks
        self._hash_key = secrets.token_bytes(32)
        self._callers = TTLCache[bytes, Caller](_REMEMBERED_TOKENS, success_ttl_seconds, clock)
        self._refused = TTLCache[bytes, bool](_REMEMBERED_TOKENS, _REFUSAL_TTL_SECONDS, clock)
        self._asking: dict[bytes, _Review] = {}
        self._lookups = lookups

    def key_of(self, token: bytes) -> bytes:
        """Return under what a token is remembered: nobody can tell the token from it."""
        return hashlib.blake2b(token, key=self._hash_key, digest_size=32).digest()

    def cached_caller(self, key: bytes) -> Caller | None:
        """Return whose token this was found to be within the life of that answer, if anybody's."""
        caller = self._callers.get(key)
        if caller is not None:
            self._lookups.hits += 1
        return caller

    async def authenticate(self, token: bytes, *, address: str) -> Caller:
        """Return whose token this is; `address` is where it came from.

        Unauthorized for a no, UpstreamUnavailable for no answer, TooManyRequests for one too many,
        TokenTooLarge for one that is not reviewed at all.
        """
        if len(token) > self._token_bytes:
            self._queue.count_oversized()
            raise TokenTooLarge(f"the bearer token is larger than {self._token_bytes} bytes")
        key = self.key_of(token)
        caller = self._callers.get(key)
        if caller is not None or self._refused.get(key):
            self._lookups.hits += 1
        else:
            self._lookups.misses += 1
            caller = await self._ask_once(key, token, address)
        if caller is None:
            raise Unauthorized
        return caller

    async def _ask_once(self, key: bytes, token: bytes, address: str) -> Caller | None:
        review = self._asking.get(key)
        if review is None:
            review = self._begin(key, token, address)
        review.waiting += 1
        try:
            # Shielded: one impatient client must not cancel the question for the others.
            return await asyncio.shield(review.task)
        finally:
            review.waiting -= 1
            if not review.waiting and not review.asked.is_set():
                self._forget(key, review)
                review.task.cancel()

    def _begin(self, key: bytes, token: bytes, address: str) -> _Review:
        text = _readable(token)
        origin = address_key(address)
        # Before there is a task, so that a flood costs as little as can be.
        self._queue.enter(origin)
        asked = asyncio.Event()
        task = self._tasks.start(self._ask(key, text, origin, asked))
        review = self._asking[key] = _Review(task, asked)
        task.add_done_callback(lambda _: self._forget(key, review))
        return review

    def _forget(self, key: bytes, review: _Review) -> None:
        # Another review of the same token may have begun since this one was given up.
        if self._asking.get(key) is review:
            del self._asking[key]

    async def _ask(
        self, key: bytes, token: str, origin: str, asked: asyncio.Event
    ) -> Caller | None:
        user = await self._queue.review(token, origin=origin, when_asked=asked.set)
        if user is None:
            self._refused.put(key, value=True)
            return None
        caller = Caller(user)
        self._callers.put(key, caller)
        return caller


def _readable(token: bytes) -> str:
    try:
        return token.decode("ascii")
    except UnicodeDecodeError:
        # Without its cause, which holds the token.
        raise Unauthorized from None
