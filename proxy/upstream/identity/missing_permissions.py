"""Confirmation that the forwarder lacks a permission to impersonate a user.

A 403 that names the forwarder may be forged by a backend: see `core/selfcheck/denial.py`. If a
review confirms that the permission is missing, no request could have passed the API server. So the
denial is the API server's own.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kubernetes_asyncio.client import ApiException

from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import TooManyRequests
from proxy.core.selfcheck.permissions import Permission, impersonation_permissions
from proxy.core.ttl_cache import TTLCache
from proxy.core.userinfo import UserInfo
from proxy.upstream.identity.whoami import CALL_ERRORS

# The timeout of one confirmation. The client waits for it.
_SECONDS = 5.0
_MAX_NAMES = 32
# Bounds the reviews of all confirmations: a backend that forges denials can cause any number.
_RATE_LIMIT = RateLimit(per_second=20.0, burst=100.0)
_SHARED_KEY = ""
# A result grants nothing; it only selects the error that a client receives. So denials are cached,
# too: otherwise each request would need a review while a permission is missing.
_CACHED_PERMISSIONS = 256
_CACHE_SECONDS = 1.0


class MissingPermissionChecker:
    """Checks which permissions the forwarder has, rate-limited, and each at most once at a time."""

    def __init__(
        self,
        has_permission: Callable[[Permission], Awaitable[bool]],
        *,
        clock: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        """`may` returns whether the forwarder has a permission, by a review at the API server."""
        self._send_review = has_permission
        self._tasks = tasks
        self._buckets = KeyedTokenBucket(_RATE_LIMIT, clock)
        self._cache = TTLCache[Permission, bool](_CACHED_PERMISSIONS, _CACHE_SECONDS, clock)
        self._reviewing: dict[Permission, asyncio.Task[bool | None]] = {}

    def confirm(self, user: UserInfo, name: str, on_result: Callable[[bool], None]) -> None:
        """Report later whether a permission to impersonate this user is missing; False in doubt.

        `name` is the denied user name, group or extra value, if known.
        """
        confirming = self._tasks.start(self._is_missing(user, name))
        confirming.add_done_callback(lambda task: on_result(_is_confirmed(task)))

    async def _is_missing(self, user: UserInfo, denied: str) -> bool:
        try:
            async with asyncio.timeout(_SECONDS):
                for kind, named in impersonation_permissions(user):
                    if await self._has_permission(kind) is not False:
                        continue
                    # Not every name of this kind is granted, but those that this user needs may be.
                    likely = sorted(named, key=lambda permission: permission.name != denied)
                    for permission in likely[:_MAX_NAMES]:
                        if await self._has_permission(permission) is False:
                            return True
        except TimeoutError:
            pass
        return False

    async def _has_permission(self, permission: Permission) -> bool | None:
        """Return whether the forwarder has a permission; None if no review is possible now."""
        cached = self._cache.get(permission)
        if cached is not None:
            return cached
        reviewing = self._reviewing.get(permission)
        if reviewing is None:
            try:
                self._buckets.take(_SHARED_KEY)
            except TooManyRequests:
                return None
            reviewing = self._tasks.start(self._review(permission))
            self._reviewing[permission] = reviewing
            reviewing.add_done_callback(lambda _: self._reviewing.pop(permission, None))
        return await asyncio.shield(reviewing)

    async def _review(self, permission: Permission) -> bool | None:
        try:
            is_granted = await self._send_review(permission)
        except (ApiException, *CALL_ERRORS):
            return None
        self._cache.put(permission, is_granted)
        return is_granted


def _is_confirmed(confirming: asyncio.Task[bool]) -> bool:
    if confirming.cancelled() or confirming.exception() is not None:
        return False
    return confirming.result()
