"""The API server side as a whole: one credential, and everything that uses it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from kubernetes_asyncio.client import ApiClient

from proxy.settings.upstream import UpstreamSettings
from proxy.upstream.credential_keeper import CredentialKeeper
from proxy.upstream.credentials import load_credentials
from proxy.upstream.endpoints import Endpoints
from proxy.upstream.forwarder import Forwarder
from proxy.upstream.own_standing import OwnStanding, probe
from proxy.upstream.pool import Pool
from proxy.upstream.review_client import review_client
from proxy.wire.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Clocks:
    """Time that only grows, and the time of day, which credentials expire by."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class UpstreamSide:
    """What the rest of the proxy needs of the API server side."""

    client: ApiClient
    """For our own calls."""
    forwarder: Forwarder
    pool: Pool
    keeper: CredentialKeeper
    credential_changed: asyncio.Event
    """Set with every change of our credential; whoever acts on it clears it."""


@asynccontextmanager
async def upstream_side(
    settings: UpstreamSettings, *, clocks: Clocks, tasks: Tasks
) -> AsyncIterator[UpstreamSide]:
    """Yield the API server side; SetupError when our identity cannot be read.

    Its connections, and what runs as tasks, are the owner's to stop.
    """
    credentials = await load_credentials(settings.kubeconfig, settings.endpoints, now=clocks.now)
    endpoints = Endpoints(credentials, clocks.monotonic)
    credential_changed = asyncio.Event()
    keeper = CredentialKeeper(
        credentials,
        every_seconds=settings.credential_refresh_seconds,
        when_changed=credential_changed.set,
        tasks=tasks,
    )
    pool = Pool(
        endpoints,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        clock=clocks.monotonic,
        tasks=tasks,
    )
    async with review_client(
        endpoints,
        credentials.configuration,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        when_refused=keeper.refused,
    ) as client:
        forwarder = Forwarder(
            pool,
            credentials,
            OwnStanding(partial(probe, client), credentials, clock=clocks.monotonic, tasks=tasks),
            response_timeout_seconds=settings.response_timeout_seconds,
            tasks=tasks,
        )
        yield UpstreamSide(client, forwarder, pool, keeper, credential_changed)
