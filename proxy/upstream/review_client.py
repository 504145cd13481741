"""The client of our own calls: reviews, never forwarded requests.

It shares no connection, no header and no code path with forwarding, so nothing a client of ours
sends can end up in a review, and no review can carry an impersonation.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from kubernetes_asyncio.client import ApiClient

from proxy.upstream.credentials import UpstreamCredentials


@asynccontextmanager
async def review_client(credentials: UpstreamCredentials) -> AsyncIterator[ApiClient]:
    """Yield a client that authenticates as us."""
    async with ApiClient(credentials.configuration) as client:
        rest = client.rest_client
        await rest.pool_manager.close()
        # The library's own session reads proxies and .netrc from the environment and keeps
        # cookies. The bound on connections is the reviewer's bound on questions.
        rest.pool_manager = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=credentials.endpoint.context),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        yield client
