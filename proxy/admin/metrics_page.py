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
from collections.abc import Callable, Iterable, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from proxy.admin.health import HealthPage
from proxy.admin.metrics_guard import MetricsGuard

_SECONDS_PER_PAGE = 1.0

Guard = Callable[[], MetricsGuard | None]
"""Returns who decides about scrapers now; None if everybody is welcome."""


class MetricsPage:
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

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Return all series, or why not."""
        guard = self._guard()
        if guard is not None and (refusal := await guard.refusal(request)) is not None:
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


class HealthMetrics(Collector):
    """Shows what each health check says, as it is when somebody asks."""

    def __init__(self, pages: Mapping[str, HealthPage], registry: CollectorRegistry) -> None:
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
