"""The client of our own calls: reviews, never forwarded requests.

It shares no connection, no header and no code path with forwarding, so nothing a client of ours
sends can end up in a review, and no review can carry an impersonation. The reviewer's credential is
its own, too. The forwarder's client, which asks about the forwarder alone, shares its credential,
and the memory of which endpoints cannot be reached.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes_asyncio.client import ApiClient, Configuration

from proxy.kubeclient.bounded_session import bounded_session
from proxy.upstream.credentials.credentials import ANY_ENDPOINT
from proxy.upstream.endpoints import Endpoint, EndpointSet

# An API server stores no object above 1.5 MiB, and a review comes back as large as it was sent.
_MOST_ANSWER_BYTES = 2 * 1024 * 1024
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@asynccontextmanager
async def open_client(
    endpoints: EndpointSet,
    configuration: Configuration,
    *,
    connect_timeout_seconds: float,
    when_refused: Callable[[], None],
) -> AsyncIterator[ApiClient]:
    """Yield a client that authenticates as us, at whichever endpoint can be reached.

    `when_refused` hears that an API server did not accept our credential.
    """
    async with _OwnClient(configuration) as client:
        rest = client.rest_client
        await rest.pool_manager.close()
        rest.pool_manager = _ReviewSession(endpoints, connect_timeout_seconds, when_refused)
        yield client


class _OwnClient(ApiClient):
    """The library's client; an answer that cannot be read is a ValueError, whatever is in it."""

    def deserialize(self, response: Any, response_type: Any) -> Any:
        """Return the document of an answer."""
        try:
            return super().deserialize(response, response_type)
        except RecursionError as error:
            raise ValueError("the answer is nested too deeply") from error


class _ReviewSession:
    """Does for the library what a session does, with an endpoint chosen for each call.

    Reviews change nothing, so a call whose connection failed or broke is made again at the next
    endpoint; each endpoint is asked at most once.
    """

    def __init__(
        self,
        endpoints: EndpointSet,
        connect_timeout_seconds: float,
        when_refused: Callable[[], None],
    ) -> None:
        self._endpoints = endpoints
        self._connect_timeout_seconds = connect_timeout_seconds
        self._when_refused = when_refused
        # The library's own session reads proxies and .netrc from the environment and keeps
        # cookies. The bound on connections is the reviewer's bound on questions.
        self._session = bounded_session(answer_bytes=_MOST_ANSWER_BYTES, connections=0)

    async def request(
        self,
        *,
        url: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the library's name for it
        **options: Any,
    ) -> aiohttp.ClientResponse:
        """Make a call: at any endpoint, or at the one that the URL names."""
        origin, path = _split(url)
        candidates = self._candidates(origin)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connect_timeout_seconds
        failure: aiohttp.ClientError = aiohttp.ClientConnectionError("no such endpoint")
        for position, endpoint in enumerate(candidates):
            share = max((deadline - loop.time()) / (len(candidates) - position), 0.001)
            limits = aiohttp.ClientTimeout(total=timeout.total, sock_connect=share)
            try:
                return await self._ask(endpoint, path, timeout=limits, **options)
            except _NOT_CONNECTED as error:
                self._endpoints.failed(endpoint, error)
                failure = error
            except aiohttp.ClientConnectionError as error:
                failure = error
        raise failure

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def _ask(self, endpoint: Endpoint, path: str, **options: Any) -> aiohttp.ClientResponse:
        # The context is part of what tells connections apart, so none outlives our certificate.
        options |= {"ssl": endpoint.context, "server_hostname": endpoint.server_name}
        answer = await self._session.request(
            url=endpoint.url + path, allow_redirects=False, **options
        )
        self._endpoints.reached(endpoint)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._when_refused()
        return answer

    def _candidates(self, origin: str) -> list[Endpoint]:
        if origin == ANY_ENDPOINT:
            return self._endpoints.in_order()
        return [one for one in self._endpoints.all if one.url == origin]


def _split(url: str) -> tuple[str, str]:
    """Return a URL as its origin and the rest."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", slash + path
