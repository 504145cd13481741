"""Whose a 401 is: the API server's verdict on us, or an application's word to its client.

An aggregated API server or a proxied application answers 401 for reasons of its own, and that
answer is its client's to have. But a client that is told 401 throws its own credential away, so
a verdict on ours must never reach it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Protocol

from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.concurrency.task_set import TaskSet
from proxy.upstream.auth_errors import CredentialStatus, ProxyDenialDetector
from proxy.upstream.endpoints import Endpoint
from proxy.upstream.identity.whoami import CALL_ERRORS, self_subject_review

# Authorization and routing come after authentication, so whoever says these knows who we are. A
# 429 or a 5xx may come from something that has not looked yet.
_KNOWN_TO_BE_US = frozenset((HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND))
# So long a good answer is believed, and an application's refusals pass without another question.
ACCEPTED_TTL_SECONDS = 1.0

Probe = Callable[[Endpoint], Coroutine[Any, Any, CredentialStatus]]


async def probe(client: ApiClient, endpoint: Endpoint) -> CredentialStatus:
    """Ask an endpoint what it thinks of our credential alone; in bounded time."""
    try:
        await self_subject_review(client, endpoint.url)
    except ApiException as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            return CredentialStatus.REFUSED
        return (
            CredentialStatus.ACCEPTED
            if error.status in _KNOWN_TO_BE_US
            else CredentialStatus.UNKNOWN
        )
    except CALL_ERRORS:
        return CredentialStatus.UNKNOWN
    return CredentialStatus.ACCEPTED


class OwnVersion(Protocol):
    """Our credential, as far as its changes are concerned."""

    @property
    def version(self) -> int:
        """Return a number that grows with every change."""
        ...


class CredentialProber:
    """Finds out whose a 401 is: ours, if our credential alone is refused, too.

    One question at a time for each endpoint, whoever waits for its answer. Only a good answer is
    remembered, and that for a moment.
    """

    def __init__(
        self,
        probe: Probe,
        credential: OwnVersion,
        *,
        denials: ProxyDenialDetector,
        clock: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        self.denials = denials
        self._probe = probe
        self._credential = credential
        self._clock = clock
        self._tasks = tasks
        self._accepted_at: dict[str, tuple[int, float]] = {}
        self._asking: dict[tuple[str, int], asyncio.Task[CredentialStatus]] = {}

    def check(
        self, endpoint: Endpoint, version: int, tell: Callable[[CredentialStatus], None]
    ) -> None:
        """Tell how this endpoint takes this version of our credential; at once if we know.

        A version that is no longer ours cannot be asked about: nobody knows how it stood.
        """
        if version != self._credential.version:
            tell(CredentialStatus.UNKNOWN)
        elif self._is_believed(endpoint, version):
            tell(CredentialStatus.ACCEPTED)
        else:
            asking = self._ask_once(endpoint, version)
            asking.add_done_callback(lambda task: tell(_standing_of(task)))

    def _is_believed(self, endpoint: Endpoint, version: int) -> bool:
        believed, since = self._accepted_at.get(endpoint.address, (0, 0.0))
        return believed == version and self._clock() - since < ACCEPTED_TTL_SECONDS

    def _ask_once(self, endpoint: Endpoint, version: int) -> asyncio.Task[CredentialStatus]:
        key = (endpoint.address, version)
        asking = self._asking.get(key)
        if asking is None:
            asking = self._tasks.start(self._ask(endpoint, version))
            self._asking[key] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        return asking

    async def _ask(self, endpoint: Endpoint, version: int) -> CredentialStatus:
        status = await self._probe(endpoint)
        if version != self._credential.version:
            return CredentialStatus.UNKNOWN  # The answer may be about the next credential.
        if status is CredentialStatus.ACCEPTED:
            self._accepted_at[endpoint.address] = version, self._clock()
        return status


def _standing_of(asking: asyncio.Task[CredentialStatus]) -> CredentialStatus:
    if asking.cancelled() or asking.exception() is not None:
        return CredentialStatus.UNKNOWN
    return asking.result()
