"""One of the proxy's identities at the API server: credential, endpoints, refresh, client."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from kubernetes_asyncio.client import ApiClient, Configuration

from proxy.concurrency.task_set import TaskSet
from proxy.settings.upstream import UpstreamSettings
from proxy.telemetry.metrics.upstream import UpstreamMetrics
from proxy.upstream.credentials.credentials import (
    ANY_ENDPOINT,
    CredentialSource,
    CredentialState,
    UpstreamCredentials,
    load_credentials,
)
from proxy.upstream.credentials.refresher import CredentialRefresher
from proxy.upstream.endpoints import EndpointSet
from proxy.upstream.identity.whoami import ProxyUser, whoami
from proxy.upstream.kube_client import open_client

REVIEWER, FORWARDER, SHARED = "reviewer", "forwarder", "shared"


@dataclass(frozen=True, slots=True)
class Clocks:
    """The monotonic clock, and the wall clock, by which credentials expire."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class AccountDependencies:
    """The dependencies of every account besides its credential."""

    settings: UpstreamSettings
    clocks: Clocks
    metrics: UpstreamMetrics
    tasks: TaskSet
    on_review_denied: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ProxyAccount:
    """One of the proxy's identities; `role` is reviewer, forwarder or shared."""

    role: str
    credentials: UpstreamCredentials
    endpoints: EndpointSet
    refresher: CredentialRefresher
    client: ApiClient
    """For the proxy's own calls with this identity."""
    resolve_user: Callable[[CredentialState, ApiClient | None], Awaitable[ProxyUser]]
    """Resolves the user of a credential that is not in use yet; UpstreamUnavailable if that fails.
    The client is the reviewer's, or None for a credential of the reviewer itself."""


@asynccontextmanager
async def open_account(
    role: str, source: CredentialSource, dependencies: AccountDependencies
) -> AsyncIterator[ProxyAccount]:
    """Yield an identity; OperatorError when its credential cannot be read."""
    settings = dependencies.settings
    credentials = await load_credentials(source, settings.endpoints)
    endpoints = EndpointSet(credentials, dependencies.clocks.monotonic)
    refresher = CredentialRefresher(
        role,
        credentials,
        every_seconds=settings.credential_refresh_seconds,
        counter=dependencies.metrics,
        tasks=dependencies.tasks,
    )
    async with open_client(
        endpoints,
        credentials.configuration,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        when_rejected=refresher.report_rejected,
        when_review_denied=dependencies.on_review_denied,
    ) as client:
        user_of = partial(_user_of, dependencies)
        yield ProxyAccount(role, credentials, endpoints, refresher, client, user_of)


async def _user_of(
    dependencies: AccountDependencies, state: CredentialState, reviewer: ApiClient | None
) -> ProxyUser:
    configuration = Configuration(host=ANY_ENDPOINT)
    configuration.api_key = state.api_key
    async with open_client(
        EndpointSet(state, dependencies.clocks.monotonic),
        configuration,
        connect_timeout_seconds=dependencies.settings.connect_timeout_seconds,
        when_rejected=lambda: None,
    ) as client:
        return await whoami(client, state, reviewer or client)
