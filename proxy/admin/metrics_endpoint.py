"""The endpoint /metrics, with authorization of scrapers.

The page is rendered at most once a second, for all waiting scrapers. A scrape that arrives earlier
waits for the next rendering, so that no page is older than its request. A scraper in a loop costs
one response a second.

Collectors are read in the event loop, because they are not thread-safe. A full page costs 20 ms, so
it is rendered family by family, and other work runs in between. The largest family costs 3 ms.
Formatting in a thread was rejected: it would hold the interpreter lock, and the event loop would
wait for it up to 5 ms each time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from proxy.admin.health import HealthHandler
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit, address_key
from proxy.core.authorization.access_check import AccessCheck, CheckResult
from proxy.core.errors import (
    ReviewRejected,
    StatusError,
    TooManyRequests,
    Unauthorized,
)
from proxy.core.impersonation.evaluation import forbidden_message
from proxy.core.userinfo import UserInfo

_REVIEW_SECONDS = 5.0
_MAX_REVIEWS = 8
_BEARER = "bearer"
# Rate limit of rejected tokens per address. Prometheus scrapes a few times a minute.
_FAILURES = RateLimit(per_second=5.0, burst=50.0)
_TOO_MANY = "too many requests"


TokenReviewer = Callable[[str], Awaitable[UserInfo | None]]
"""Returns the token's user, or None if it is not authenticated; StatusError for anything else."""

AccessReviewer = Callable[[AccessCheck], Awaitable[CheckResult]]
"""Returns the result of an access check; StatusError if there is none."""


class MetricsAuthorizer:
    """Authorizes scrapers by a TokenReview and a SubjectAccessReview."""

    def __init__(
        self, tokens: TokenReviewer, access: AccessReviewer, *, clock: Callable[[], float]
    ) -> None:
        self._tokens = tokens
        self._access = access
        self._reviews = 0
        self._buckets = KeyedTokenBucket(_FAILURES, clock, rejection=_TOO_MANY)

    async def authorize(self, request: web.BaseRequest) -> web.Response | None:
        """Return the error response, or None if the request is authorized."""
        token = _bearer_token(request)
        if token is None:
            return _error_response(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if self._reviews >= _MAX_REVIEWS:
            # The client is not authenticated yet: a flood of requests must not become a flood of
            # reviews.
            return _error_response(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY)
        self._reviews += 1
        try:
            return await self._authorize_limited(token, request)
        except (TooManyRequests, Unauthorized, ReviewRejected) as error:
            # The API server answered: the error concerns this scraper only.
            return _error_response(HTTPStatus(error.code), error.message)
        except (StatusError, TimeoutError):
            return _error_response(HTTPStatus.SERVICE_UNAVAILABLE, "the API server does not answer")
        finally:
            self._reviews -= 1

    async def _authorize_limited(self, token: str, request: web.BaseRequest) -> web.Response | None:
        origin = address_key(request.remote or "")
        self._buckets.take(origin)
        async with asyncio.timeout(_REVIEW_SECONDS):
            response = await self._authorize_token(token, request.path)
        if response is None:
            self._buckets.refund(origin)
        return response

    async def _authorize_token(self, token: str, path: str) -> web.Response | None:
        owner = await self._tokens(token)
        if owner is None:
            raise Unauthorized
        check = AccessCheck(owner, "get", is_resource=False, path=path)
        result = await self._access(check)
        if result.allowed:
            return None
        return _error_response(HTTPStatus.FORBIDDEN, forbidden_message(check, ""))


def _bearer_token(request: web.BaseRequest) -> str | None:
    """Return the bearer token; None if there is none or more than one."""
    values = request.headers.getall("Authorization", [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    token = token.strip()
    return token if scheme.lower() == _BEARER and token.isascii() and token else None


def _error_response(status: HTTPStatus, text: str) -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff"}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["Retry-After"] = "1"
    return web.Response(status=status, text=f"{text}\n", headers=headers)


_SECONDS_PER_PAGE = 1.0

AuthorizerSource = Callable[[], MetricsAuthorizer | None]
"""Returns the current authorizer of scrapers; None if no authorization is required."""


class MetricsHandler:
    """Serves all metrics of the registry and of the process."""

    def __init__(
        self,
        registry: CollectorRegistry,
        guard: AuthorizerSource = lambda: None,
        *,
        clock: Callable[[], float],
    ) -> None:
        """`guard` is called for every request; if it returns None, the request is authorized."""
        self._registry = registry
        self._guard = guard
        self._clock = clock
        # A separate registry: process metrics are read in a thread, all others in the event loop.
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._page = b""
        # The start of the rendering of this page, and of the last attempt, which may have failed.
        self._begun_at = self._tried_at = float("-inf")
        self._rendering = asyncio.Lock()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Respond with all metrics, or with an error."""
        guard = self._guard()
        if guard is not None and (error := await guard.authorize(request)) is not None:
            return error
        page = await self._page_since(self._clock())
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _page_since(self, requested_at: float) -> bytes:
        """Return a page whose rendering began at this time or later."""
        async with self._rendering:
            # While this request waited for the lock, another one may have rendered a new page.
            if self._begun_at < requested_at:
                next_at = self._tried_at + _SECONDS_PER_PAGE
                await asyncio.sleep(max(next_at - self._clock(), 0.0))
                begun_at = self._tried_at = self._clock()
                # Both are set only after success: waiting requests must not get an older page.
                self._page = await self._render()
                self._begun_at = begun_at
            return self._page

    async def _render(self) -> bytes:
        parts = []
        for family in self._registry.collect():
            parts.append(generate_latest(_OneFamily(family)))
            await asyncio.sleep(0)
        parts.append(await asyncio.to_thread(generate_latest, self._process))
        return b"".join(parts)


class _OneFamily(Collector):
    """A metric family that was already collected."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


class HealthCheckCollector(Collector):
    """Exposes the result of each health check, evaluated at every scrape."""

    def __init__(self, pages: Mapping[str, HealthHandler], registry: CollectorRegistry) -> None:
        self._pages = pages
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the metric name for the registry."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """Run every check, and return its result."""
        family = self._family()
        for page, checks in self._pages.items():
            for name, fault in checks.results:
                family.add_metric((page, name), float(fault is None))
        return [family]

    @staticmethod
    def _family() -> GaugeMetricFamily:
        text = "1 if a health check passes, else 0, by page (livez, readyz) and check."
        return GaugeMetricFamily("understudy_healthcheck", text, labels=("page", "check"))
