"""The page /metrics: what is counted, for scrapers that may see it.

It is rendered at most once a second, for all scrapers that wait: a scrape that comes sooner waits
for the next rendering, so that no page is older than its request. A scraper in a loop costs one
response a second.

Collectors are read in the event loop, because they are not safe for threads. A full page costs
20 ms, so it is made family by family, and other work has its turn in between. The largest family
costs 3 ms. Formatting in a thread was not chosen: it would hold the interpreter lock, for which
the event loop then waits up to 5 ms at a time.
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
_AT_A_TIME = 8
_BEARER = "bearer"
# Tokens of one address that do not open the page. Prometheus asks a few times a minute.
_FAILURES = RateLimit(per_second=5.0, burst=50.0)
_TOO_MANY = "too many requests"


TokenReviewer = Callable[[str], Awaitable[UserInfo | None]]
"""Returns the token's owner, or None for a definite no; Refusal for anything else."""

AccessReviewer = Callable[[AccessCheck], Awaitable[CheckResult]]
"""Returns what somebody may do; Refusal when there is no answer."""


class MetricsAuthorizer:
    """Lets those in whom the API server knows and allows."""

    def __init__(
        self, tokens: TokenReviewer, access: AccessReviewer, *, clock: Callable[[], float]
    ) -> None:
        self._tokens = tokens
        self._access = access
        self._under_way = 0
        self._buckets = KeyedTokenBucket(_FAILURES, clock, refusal=_TOO_MANY)

    async def authorize(self, request: web.BaseRequest) -> web.Response | None:
        """Return why the request is not answered; None when it is."""
        token = _bearer_token(request)
        if token is None:
            return _refused(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if self._under_way >= _AT_A_TIME:
            # Whoever asks is a stranger still: a flood of them must not become one of reviews.
            return _refused(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY)
        self._under_way += 1
        try:
            return await self._judge_rationed(token, request)
        except (TooManyRequests, Unauthorized, ReviewRejected) as refusal:
            # The API server answers: what it does not accept is about this scraper alone.
            return _refused(HTTPStatus(refusal.code), refusal.message)
        except (StatusError, TimeoutError):
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "the API server does not answer")
        finally:
            self._under_way -= 1

    async def _judge_rationed(self, token: str, request: web.BaseRequest) -> web.Response | None:
        origin = address_key(request.remote or "")
        self._buckets.take(origin)
        async with asyncio.timeout(_REVIEW_SECONDS):
            refusal = await self._judge(token, request.path)
        if refusal is None:
            self._buckets.refund(origin)
        return refusal

    async def _judge(self, token: str, path: str) -> web.Response | None:
        owner = await self._tokens(token)
        if owner is None:
            raise Unauthorized
        check = AccessCheck(owner, "get", is_resource=False, path=path)
        result = await self._access(check)
        if result.allowed:
            return None
        return _refused(HTTPStatus.FORBIDDEN, forbidden_message(check, ""))


def _bearer_token(request: web.BaseRequest) -> str | None:
    """Return the one token that was shown; None for none, or for more than one."""
    values = request.headers.getall("Authorization", [])
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    token = token.strip()
    return token if scheme.lower() == _BEARER and token.isascii() and token else None


def _refused(status: HTTPStatus, text: str) -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff"}
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["Retry-After"] = "1"
    return web.Response(status=status, text=f"{text}\n", headers=headers)


_SECONDS_PER_PAGE = 1.0

Guard = Callable[[], MetricsAuthorizer | None]
"""Returns who decides about scrapers now; None if everybody is welcome."""


class MetricsHandler:
    """Answers with everything on the registry, and how the process is."""

    def __init__(
        self,
        registry: CollectorRegistry,
        guard: Guard = lambda: None,
        *,
        clock: Callable[[], float],
    ) -> None:
        """Without a guard, in the moment of asking, everybody may see it."""
        self._registry = registry
        self._guard = guard
        self._clock = clock
        # On a registry of its own: the system is asked in a thread, ours are read in the loop.
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._page = b""
        # When the page was begun, and when any was: the last one may have failed.
        self._begun_at = self._tried_at = float("-inf")
        self._turn = asyncio.Lock()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Return all series, or why not."""
        guard = self._guard()
        if guard is not None and (refusal := await guard.authorize(request)) is not None:
            return refusal
        page = await self._page_since(self._clock())
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _page_since(self, moment: float) -> bytes:
        """Return a page that was begun at this moment or later."""
        async with self._turn:
            # Whoever waited for the turn may find a page that was begun meanwhile.
            if self._begun_at < moment:
                next_at = self._tried_at + _SECONDS_PER_PAGE
                await asyncio.sleep(max(next_at - self._clock(), 0.0))
                begun_at = self._tried_at = self._clock()
                # Both only after success: an older page is not what those behind us wait for.
                self._page = await self._rendered()
                self._begun_at = begun_at
            return self._page

    async def _rendered(self) -> bytes:
        parts = []
        for family in self._registry.collect():
            parts.append(generate_latest(_OneFamily(family)))
            await asyncio.sleep(0)
        parts.append(await asyncio.to_thread(generate_latest, self._process))
        return b"".join(parts)


class _OneFamily(Collector):
    """A family that was collected already."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


class HealthCheckCollector(Collector):
    """Shows what each health check says, as it is when somebody asks."""

    def __init__(self, pages: Mapping[str, HealthHandler], registry: CollectorRegistry) -> None:
        self._pages = pages
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Tell the registry which name is taken."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """Ask every check."""
        family = self._family()
        for page, checks in self._pages.items():
            for name, fault in checks.faults:
                family.add_metric((page, name), float(fault is None))
        return [family]

    @staticmethod
    def _family() -> GaugeMetricFamily:
        text = "1 if a health check passes, else 0, by page (livez, readyz) and check."
        return GaugeMetricFamily("understudy_healthcheck", text, labels=("page", "check"))
