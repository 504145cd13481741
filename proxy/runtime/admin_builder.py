"""Builders for the admin port: metrics authorization, tracing and client gauges."""

import asyncio
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from kubernetes_asyncio.client import ApiClient

from proxy.admin.metrics_endpoint import MetricsAuthorizer
from proxy.authentication.token_review import KubernetesTokenReviewer
from proxy.authorization.access_review import KubernetesAccessReviewer
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.impersonation.permit import Permit
from proxy.core.userinfo import UserInfo
from proxy.serving.exchange_transport import ExchangeKind
from proxy.serving.limits.max_in_flight import MaxInFlightLimiter
from proxy.serving.listener import Listener
from proxy.settings.telemetry import TracingSettings
from proxy.telemetry.metrics.serving import ServingMetrics
from proxy.telemetry.tracing import Tracing, start_tracing
from proxy.upstream.forwarder import HeadDecorator
from proxy.wire.exchange import ClientExchange

try:
    VERSION = version("kube-understudy")
except PackageNotFoundError:  # run from a source tree
    VERSION = "unknown"


class _CurrentReviewer:
    """Sends reviews with the client that is current at the time of the review.

    A reload may replace the client.
    """

    def __init__(self, client: Callable[[], ApiClient]) -> None:
        self._client = client

    async def review_token(self, token: str) -> UserInfo | None:
        """Return the token's user by a TokenReview for the API server's own audiences."""
        return await KubernetesTokenReviewer(self._client()).review(token)

    async def review_access(self, check: AccessCheck) -> CheckResult:
        """Return the result of a SubjectAccessReview."""
        return await KubernetesAccessReviewer(self._client()).review(check)


def build_metrics_authorizer(
    client: Callable[[], ApiClient], *, clock: Callable[[], float]
) -> MetricsAuthorizer:
    """Return an authorizer for scrapers that reviews with the current reviewer client."""
    reviewer = _CurrentReviewer(client)
    return MetricsAuthorizer(reviewer.review_token, reviewer.review_access, clock=clock)


async def start_tracing_from(settings: TracingSettings) -> Tracing | None:
    """Return the tracer of requests, or None without a configured collector; TracingError."""
    if settings.endpoint is None:
        return None
    rate = settings.sampling_rate_per_million
    start = partial(
        start_tracing,
        settings.endpoint,
        sampling_rate_per_million=rate,
        trusted_groups=settings.trusted_groups,
    )
    return await asyncio.to_thread(start)


def trace_header_injector(tracing: Tracing | None) -> HeadDecorator | None:
    """Return a decorator that adds the request's span to the upstream head, if tracing is on."""
    if tracing is None:
        return None

    def inject(exchange: ClientExchange, audit_id: bytes, head: bytes, permit: Permit) -> bytes:
        groups = permit.caller.user.groups
        return tracing.inject_headers((audit_id, id(exchange.request)), head, groups)

    return inject


def register_client_gauges(
    metrics: ServingMetrics, listener: Listener, in_flight: MaxInFlightLimiter
) -> None:
    """Register the gauges of client connections and of requests in flight."""

    def count(kind: ExchangeKind) -> int:
        exchanges = (connection.exchange for connection in listener.connections)
        return sum(exchange is not None and exchange.kind is kind for exchange in exchanges)

    metrics.watch_clients(
        lambda: len(listener.connections),
        {
            "read": lambda: in_flight.in_use[0],
            "write": lambda: in_flight.in_use[1],
            "stream": lambda: count(ExchangeKind.STREAM),
            "tunnel": lambda: count(ExchangeKind.TUNNEL),
        },
    )
    metrics.watch_handshakes(lambda: listener.handshake_failures)
    metrics.unauthenticated.watch_connections(
        lambda: listener.unauthenticated_connections,
        lambda: listener.evictions,
        lambda: listener.stalled_responses,
    )
