"""A bearer token becomes an identity: the API server reviews it, we remember a yes for a moment.

Tokens are never kept: the memory is keyed by a keyed hash whose key lives as long as the process.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

import aiohttp
from cachetools import TTLCache
from kubernetes_asyncio.client import (
    ApiClient,
    ApiException,
    AuthenticationV1Api,
    V1TokenReview,
    V1TokenReviewSpec,
    V1TokenReviewStatus,
    V1UserInfo,
)

from proxy.core.errors import Unauthorized, UpstreamUnavailable
from proxy.core.identity import Caller, Identity, extra_of, with_authenticated
from proxy.wire.tasks import Tasks

_REMEMBERED_TOKENS = 32_768
_REFUSAL_TTL_SECONDS = 2.0
_REVIEW_SECONDS = 10.0

# What the client raises when nobody answered, or something that is no TokenReview: it reads
# whatever JSON comes back as if it were one.
_NO_ANSWER = (
    ApiException,
    aiohttp.ClientError,
    AttributeError,
    OSError,
    TimeoutError,
    TypeError,
    ValueError,
)


class TokenReviewer(Protocol):
    """Asks whose a token is."""

    async def review(self, token: str) -> Identity | None:
        """Return the token's owner, or None for a definite no; raises UpstreamUnavailable."""
        ...


class KubernetesTokenReviewer:
    """Asks the API server by TokenReview."""

    def __init__(self, client: ApiClient, *, audiences: Sequence[str] = ()) -> None:
        self._api = AuthenticationV1Api(client)
        self._audiences = list(audiences)

    async def review(self, token: str) -> Identity | None:
        """Return the token's owner, or None for a definite no; raises UpstreamUnavailable."""
        spec = V1TokenReviewSpec(token=token, audiences=self._audiences or None)
        try:
            answer = await self._api.create_token_review(
                V1TokenReview(spec=spec), _request_timeout=_REVIEW_SECONDS
            )
            return self._owner(answer.status)
        except _NO_ANSWER as error:
            # Never a 401: the client would throw away a token that may be good.
            raise UpstreamUnavailable("the token cannot be reviewed") from error

    def _owner(self, status: V1TokenReviewStatus | None) -> Identity | None:
        if status is None:
            raise ValueError("a review without a status")
        if status.authenticated is not True or status.error:
            return None
        return _identity(status.user) if self._is_for_us(status.audiences or []) else None

    def _is_for_us(self, audiences: Sequence[str]) -> bool:
        """An API server that does not know audiences answers without any: then we cannot tell."""
        return not self._audiences or any(one in audiences for one in self._audiences)


def _identity(user: V1UserInfo | None) -> Identity | None:
    if user is None or not user.username:
        return None
    return Identity(
        name=user.username,
        uid=user.uid or "",
        groups=with_authenticated(user.groups or ()),
        extra=extra_of(user.extra or {}),
    )


class TokenAuthenticator:
    """Reviews each token once at a time and remembers a yes for `success_ttl_seconds`."""

    def __init__(
        self,
        reviewer: TokenReviewer,
        *,
        success_ttl_seconds: float,
        clock: Callable[[], float],
        tasks: Tasks,
    ) -> None:
        self._reviewer = reviewer
        self._tasks = tasks
        self._hash_key = secrets.token_bytes(32)
        self._callers: TTLCache[bytes, Caller] = TTLCache(
            _REMEMBERED_TOKENS, success_ttl_seconds, timer=clock
        )
        self._refused: TTLCache[bytes, bool] = TTLCache(
            _REMEMBERED_TOKENS, _REFUSAL_TTL_SECONDS, timer=clock
        )
        self._asking: dict[bytes, asyncio.Task[Caller | None]] = {}

    async def authenticate(self, token: bytes) -> Caller:
        """Return whose token this is; Unauthorized for a no, UpstreamUnavailable for no answer."""
        key = hashlib.blake2b(token, key=self._hash_key, digest_size=32).digest()
        caller = self._callers.get(key)
        if caller is None and key not in self._refused:
            caller = await self._ask_once(key, token)
        if caller is None:
            raise Unauthorized
        return caller

    async def _ask_once(self, key: bytes, token: bytes) -> Caller | None:
        asking = self._asking.get(key)
        if asking is None:
            asking = self._tasks.start(self._ask(key, token))
            self._asking[key] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        # Shielded: one impatient client must not cancel the question for the others.
        return await asyncio.shield(asking)

    async def _ask(self, key: bytes, token: bytes) -> Caller | None:
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            return None
        identity = await self._reviewer.review(text)
        if identity is None:
            self._refused[key] = True
            return None
        caller = Caller(identity)
        self._callers[key] = caller
        return caller
