"""One of our identities at the API server, and everything that keeps it usable."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from kubernetes_asyncio.client import ApiClient, Configuration

from proxy.concurrency.task_set import Tasks
from proxy.settings.upstream import UpstreamSettings
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.credentials.credentials import (
    ANY_ENDPOINT,
    CredentialState,
    Source,
    UpstreamCredentials,
    load_credentials,
)
from proxy.upstream.credentials.refresher import CredentialKeeper
from proxy.upstream.endpoints import Endpoints
from proxy.upstream.identity.whoami import OwnUser, own_user
from proxy.upstream.kube_client import review_client

REVIEWER, FORWARDER, SHARED = "reviewer", "forwarder", "shared"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Time that only grows, and the time of day, which credentials expire by."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every account needs besides its credential."""

    settings: UpstreamSettings
    clocks: Clocks
    metrics: UpstreamMetrics
    when_changed: Callable[[], None]
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """An identity of ours: `role` is what it is for."""

    role: str
    credentials: UpstreamCredentials
    endpoints: Endpoints
    keeper: CredentialKeeper
    client: ApiClient
    """For calls in our own name."""
    user_of: Callable[[CredentialState, ApiClient | None], Awaitable[OwnUser]]
    """Asks the API server whose a credential is that is not in use yet; UpstreamUnavailable if it
    does not tell. The client is the reviewer's, or None for a credential of its own."""


@asynccontextmanager
async def own_account(
    role: str, source: Source, surroundings: Surroundings
) -> AsyncIterator[OwnAccount]:
    """Yield an identity; SetupError when its credential cannot be read."""
    settings = surroundings.settings
    credentials = await load_credentials(source, settings.endpoints)
    endpoints = Endpoints(credentials, surroundings.clocks.monotonic)
    keeper = CredentialKeeper(
        role,
        credentials,
        every_seconds=settings.credential_refresh_seconds,
        when_changed=surroundings.when_changed,
        counter=surroundings.metrics,
        tasks=surroundings.tasks,
    )
    async with review_client(
        endpoints,
        credentials.configuration,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        when_refused=keeper.refused,
    ) as client:
        user_of = partial(_user_of, surroundings)
        yield OwnAccount(role, credentials, endpoints, keeper, client, user_of)


async def _user_of(
    surroundings: Surroundings, state: CredentialState, reviewer: ApiClient | None
) -> OwnUser:
    configuration = Configuration(host=ANY_ENDPOINT)
    configuration.api_key = state.api_key
    async with review_client(
        Endpoints(state, surroundings.clocks.monotonic),
        configuration,
        connect_timeout_seconds=surroundings.settings.connect_timeout_seconds,
        when_refused=lambda: None,
    ) as client:
        return await own_user(client, state, reviewer or client)
