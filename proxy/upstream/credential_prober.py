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

from proxy.concurrency.task_set import Tasks
from proxy.upstream.auth_errors import OwnDenials, Standing
from proxy.upstream.endpoints import Endpoint
from proxy.upstream.identity.whoami import NO_ANSWER, review_ourselves

# Authorization and routing come after authentication, so whoever says these knows who we are. A
# 429 or a 5xx may come from something that has not looked yet.
_KNOWN_TO_BE_US = frozenset((HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND))
# So long a good answer is believed, and an application's refusals pass without another question.
BELIEVED_SECONDS = 1.0

Probe = Callable[[Endpoint], Coroutine[Any, Any, Standing]]


async def probe(client: ApiClient, endpoint: Endpoint) -> Standing:
    """Ask an endpoint what it thinks of our credential alone; in bounded time."""
    try:
        await review_ourselves(client, endpoint.url)
    except ApiException as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            return Standing.REFUSED
        return Standing.ACCEPTED if error.status in _KNOWN_TO_BE_US else Standing.UNKNOWN
    except NO_ANSWER:
        return Standing.UNKNOWN
    return Standing.ACCEPTED


class OwnVersion(Protocol):
    """Our credential, as far as its changes are concerned."""

    @property
    def version(self) -> int:
        """Return a number that grows with every change."""
        ...


class OwnStanding:
    """Finds out whose a 401 is: ours, if our credential alone is refused, too.

    One question at a time for each endpoint, whoever waits for its answer. Only a good answer is
    remembered, and that for a moment.
    """

    def __init__(
        self,
        probe: Probe,
        credential: OwnVersion,
        *,
        denials: OwnDenials,
        clock: Callable[[], float],
        tasks: Tasks,
    ) -> None:
        self.denials = denials
        self._probe = probe
        self._credential = credential
        self._clock = clock
        self._tasks = tasks
        self._accepted_at: dict[str, tuple[int, float]] = {}
        self._asking: dict[tuple[str, int], asyncio.Task[Standing]] = {}

    def ask(self, endpoint: Endpoint, version: int, tell: Callable[[Standing], None]) -> None:
        """Tell how this endpoint takes this version of our credential; at once if we know.

        A version that is no longer ours cannot be asked about: nobody knows how it stood.
        """
        if version != self._credential.version:
            tell(Standing.UNKNOWN)
        elif self._is_believed(endpoint, version):
            tell(Standing.ACCEPTED)
        else:
            asking = self._ask_once(endpoint, version)
            asking.add_done_callback(lambda task: tell(_standing_of(task)))

    def _is_believed(self, endpoint: Endpoint, version: int) -> bool:
        believed, since = self._accepted_at.get(endpoint.address, (0, 0.0))
        return believed == version and self._clock() - since < BELIEVED_SECONDS

    def _ask_once(self, endpoint: Endpoint, version: int) -> asyncio.Task[Standing]:
        key = (endpoint.address, version)
        asking = self._asking.get(key)
        if asking is None:
            asking = self._tasks.start(self._ask(endpoint, version))
            self._asking[key] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        return asking

    async def _ask(self, endpoint: Endpoint, version: int) -> Standing:
        standing = await self._probe(endpoint)
        if version != self._credential.version:
            return Standing.UNKNOWN  # The answer may be about the next credential.
        if standing is Standing.ACCEPTED:
            self._accepted_at[endpoint.address] = version, self._clock()
        return standing


def _standing_of(asking: asyncio.Task[Standing]) -> Standing:
    if asking.cancelled() or asking.exception() is not None:
        return Standing.UNKNOWN
    return asking.result()
