"""The client for the proxy's own calls: reviews, never forwarded requests.

It shares no connection, no header and no code path with forwarding. So nothing that a client sends
can end up in a review, and no review can carry impersonation headers. The reviewer also has its own
credential. The forwarder's client, which only reviews the forwarder itself, shares the forwarder's
credential and the record of unreachable endpoints.
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

# An API server stores no object above 1.5 MiB, and a review is returned as large as it was sent.
_MAX_RESPONSE_BYTES = 2 * 1024 * 1024
_DENIED = frozenset((HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN))
_REVIEWS = ("/tokenreviews", "/subjectaccessreviews")
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@asynccontextmanager
async def open_client(
    endpoints: EndpointSet,
    configuration: Configuration,
    *,
    connect_timeout_seconds: float,
    when_rejected: Callable[[], None],
    when_review_denied: Callable[[], None] = lambda: None,
) -> AsyncIterator[ApiClient]:
    """Yield a client with the proxy's credential, which calls any reachable endpoint.

    `when_rejected` is called when an API server rejects the credential, `when_review_denied` when
    it responds to a review about others with 401 or 403.
    """
    async with _ProxyApiClient(configuration) as client:
        rest = client.rest_client
        await rest.pool_manager.close()
        rest.pool_manager = _FailoverSession(
            endpoints,
            connect_timeout_seconds,
            when_rejected=when_rejected,
            when_review_denied=when_review_denied,
        )
        yield client


class _ProxyApiClient(ApiClient):
    """The library's client, which raises ValueError for any response that cannot be parsed."""

    def deserialize(self, response: Any, response_type: Any) -> Any:
        """Return the document of a response."""
        try:
            return super().deserialize(response, response_type)
        except RecursionError as error:
            raise ValueError("the response is nested too deeply") from error


class _FailoverSession:
    """Replaces the library's session, and chooses an endpoint for each call.

    Reviews change nothing, so a call whose connection failed is retried at the next endpoint. Each
    endpoint is tried at most once.
    """

    def __init__(
        self,
        endpoints: EndpointSet,
        connect_timeout_seconds: float,
        *,
        when_rejected: Callable[[], None],
        when_review_denied: Callable[[], None],
    ) -> None:
        self._endpoints = endpoints
        self._connect_timeout_seconds = connect_timeout_seconds
        self._when_rejected = when_rejected
        self._when_review_denied = when_review_denied
        # The library's own session reads proxies and .netrc from the environment and keeps
        # cookies. Connections are bounded by the reviewer's bound on concurrent reviews.
        self._session = bounded_session(response_bytes=_MAX_RESPONSE_BYTES, connections=0)

    async def request(
        self,
        *,
        url: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the library's name for it
        **options: Any,
    ) -> aiohttp.ClientResponse:
        """Make a call to any endpoint, or to the one that the URL names."""
        origin, path = _split(url)
        candidates = self._candidates(origin)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connect_timeout_seconds
        failure: aiohttp.ClientError = aiohttp.ClientConnectionError("no such endpoint")
        for position, endpoint in enumerate(candidates):
            share = max((deadline - loop.time()) / (len(candidates) - position), 0.001)
            limits = aiohttp.ClientTimeout(total=timeout.total, sock_connect=share)
            try:
                return await self._send(endpoint, path, timeout=limits, **options)
            except _NOT_CONNECTED as error:
                self._endpoints.mark_unreachable(endpoint, error)
                failure = error
            except aiohttp.ClientConnectionError as error:
                failure = error
        raise failure

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def _send(self, endpoint: Endpoint, path: str, **options: Any) -> aiohttp.ClientResponse:
        # aiohttp keeps connections per TLS context, so none is reused after a certificate change.
        options |= {"ssl": endpoint.context, "server_hostname": endpoint.server_name}
        response = await self._session.request(
            url=endpoint.url + path, allow_redirects=False, **options
        )
        self._endpoints.mark_reachable(endpoint)
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._when_rejected()
        if response.status in _DENIED and path.endswith(_REVIEWS):
            self._when_review_denied()
        return response

    def _candidates(self, origin: str) -> list[Endpoint]:
        if origin == ANY_ENDPOINT:
            return self._endpoints.in_order()
        return [endpoint for endpoint in self._endpoints.all if endpoint.url == origin]


def _split(url: str) -> tuple[str, str]:
    """Return the origin of a URL and the rest of it."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", slash + path
