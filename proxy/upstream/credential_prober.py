"""Attribution of an upstream 401: to the proxy's own credential, or to the client.

The API server may reject the proxy's credential. An aggregated API server or a proxied
application may reject the client; only that 401 may reach the client. Clients discard their
credential on 401, so a rejection of the proxy's credential must never reach them.
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

# Authorization and routing run after authentication, so these statuses mean that the credential was
# accepted. A 429 or a 5xx may be sent before authentication.
_AUTHENTICATED_STATUSES = frozenset((HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND))
# For this long an acceptance is cached, and 401s of applications are forwarded without a probe.
ACCEPTED_TTL_SECONDS = 1.0

Probe = Callable[[Endpoint], Coroutine[Any, Any, CredentialStatus]]


async def probe(client: ApiClient, endpoint: Endpoint) -> CredentialStatus:
    """Return whether an endpoint accepts the proxy's credential, without impersonation.

    The call has a timeout.
    """
    try:
        await self_subject_review(client, endpoint.url)
    except ApiException as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            return CredentialStatus.REJECTED
        return (
            CredentialStatus.ACCEPTED
            if error.status in _AUTHENTICATED_STATUSES
            else CredentialStatus.UNKNOWN
        )
    except CALL_ERRORS:
        return CredentialStatus.UNKNOWN
    return CredentialStatus.ACCEPTED


class CredentialVersion(Protocol):
    """The version of the proxy's credential."""

    @property
    def version(self) -> int:
        """Return a number that grows with every change."""
        ...


class CredentialProber:
    """Attributes a 401 to the proxy if the endpoint rejects the proxy's credential alone, too.

    At most one probe per endpoint runs at a time; concurrent checks share its result. Only an
    acceptance is cached, for `ACCEPTED_TTL_SECONDS`.
    """

    def __init__(
        self,
        probe: Probe,
        credential: CredentialVersion,
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
        self._probing: dict[tuple[str, int], asyncio.Task[CredentialStatus]] = {}

    def check(
        self, endpoint: Endpoint, version: int, on_result: Callable[[CredentialStatus], None]
    ) -> None:
        """Report whether this endpoint accepts this version of the credential; at once if cached.

        An earlier version cannot be probed any more, so its status is unknown.
        """
        if version != self._credential.version:
            on_result(CredentialStatus.UNKNOWN)
        elif self._is_accepted(endpoint, version):
            on_result(CredentialStatus.ACCEPTED)
        else:
            probing = self._probe_once(endpoint, version)
            probing.add_done_callback(lambda task: on_result(_status_of(task)))

    def _is_accepted(self, endpoint: Endpoint, version: int) -> bool:
        accepted, since = self._accepted_at.get(endpoint.address, (0, 0.0))
        return accepted == version and self._clock() - since < ACCEPTED_TTL_SECONDS

    def _probe_once(self, endpoint: Endpoint, version: int) -> asyncio.Task[CredentialStatus]:
        key = (endpoint.address, version)
        probing = self._probing.get(key)
        if probing is None:
            probing = self._tasks.start(self._run_probe(endpoint, version))
            self._probing[key] = probing
            probing.add_done_callback(lambda _: self._probing.pop(key, None))
        return probing

    async def _run_probe(self, endpoint: Endpoint, version: int) -> CredentialStatus:
        status = await self._probe(endpoint)
        if version != self._credential.version:
            return CredentialStatus.UNKNOWN  # The probe may have used the next credential.
        if status is CredentialStatus.ACCEPTED:
            self._accepted_at[endpoint.address] = version, self._clock()
        return status


def _status_of(probing: asyncio.Task[CredentialStatus]) -> CredentialStatus:
    if probing.cancelled() or probing.exception() is not None:
        return CredentialStatus.UNKNOWN
    return probing.result()
