"""Whether the forwarder lacks a right to take an identity, by the API server's own word.

An answer that denies something to the forwarder may be a forgery: see `core/own_denial.py`. If the
right is really missing, the request never got past the API server, so a confirmed denial is its
own.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kubernetes_asyncio.client import ApiException

from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import TooManyRequests
from proxy.core.selfcheck.permissions import Permission, impersonating
from proxy.core.ttl_cache import TTLCache
from proxy.core.userinfo import UserInfo
from proxy.upstream.identity.whoami import CALL_ERRORS

# What one confirmation may take. The client waits for it.
_SECONDS = 5.0
_MOST_NAMES = 32
# What all of them may cost the API server: a backend that forges denials causes them at will.
_RATION = RateLimit(per_second=20.0, burst=100.0)
_ALL = ""
# No permission follows from an answer, only which error a client is told. So denials are
# remembered, too: each request would have to ask again while a right is missing.
_REMEMBERED_RIGHTS = 256
_REMEMBERED_SECONDS = 1.0


class MissingPermissionChecker:
    """Asks which rights the forwarder has; each once at a time, in bounded numbers."""

    def __init__(
        self,
        may: Callable[[Permission], Awaitable[bool]],
        *,
        clock: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        """`may` asks the API server whether the forwarder has a right."""
        self._may = may
        self._tasks = tasks
        self._buckets = KeyedTokenBucket(_RATION, clock, refusal="too many denials of our own")
        self._known = TTLCache[Permission, bool](_REMEMBERED_RIGHTS, _REMEMBERED_SECONDS, clock)
        self._asking: dict[Permission, asyncio.Task[bool | None]] = {}

    def confirm(self, user: UserInfo, name: str, tell: Callable[[bool], None]) -> None:
        """Tell later whether a right to take this identity is missing; False in doubt.

        `name` is the part of the identity that was denied, as far as that is known.
        """
        confirming = self._tasks.start(self._is_missing(user, name))
        confirming.add_done_callback(lambda task: tell(_is_confirmed(task)))

    async def _is_missing(self, user: UserInfo, denied: str) -> bool:
        try:
            async with asyncio.timeout(_SECONDS):
                for kind, named in impersonating(user):
                    if await self._has(kind) is not False:
                        continue
                    # Not all of a kind, but perhaps those that this identity needs.
                    likely = sorted(named, key=lambda right: right.name != denied)
                    for right in likely[:_MOST_NAMES]:
                        if await self._has(right) is False:
                            return True
        except TimeoutError:
            pass
        return False

    async def _has(self, right: Permission) -> bool | None:
        """Return whether the forwarder has a right; None if that cannot be found out now."""
        known = self._known.get(right)
        if known is not None:
            return known
        asking = self._asking.get(right)
        if asking is None:
            try:
                self._buckets.take(_ALL)
            except TooManyRequests:
                return None
            asking = self._tasks.start(self._ask(right))
            self._asking[right] = asking
            asking.add_done_callback(lambda _: self._asking.pop(right, None))
        return await asyncio.shield(asking)

    async def _ask(self, right: Permission) -> bool | None:
        try:
            answer = await self._may(right)
        except (ApiException, *CALL_ERRORS):
            return None
        self._known.put(right, answer)
        return answer


def _is_confirmed(confirming: asyncio.Task[bool]) -> bool:
    if confirming.cancelled() or confirming.exception() is not None:
        return False
    return confirming.result()
