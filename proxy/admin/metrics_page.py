"""The page /metrics: what is counted, for whoever may see it."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from proxy.admin.health import HealthPage
from proxy.admin.metrics_guard import MetricsGuard

Guard = Callable[[], MetricsGuard | None]
"""Returns who decides about scrapers now; None if everybody is welcome."""


class MetricsPage:
    """Answers with everything on the registry, and how the process is."""

    def __init__(self, registry: CollectorRegistry, guard: Guard = lambda: None) -> None:
        """Without a guard, in the moment of asking, everybody may see it."""
        self._registry = registry
        self._guard = guard
        # On a registry of its own: the system is asked in a thread, ours are read in the loop.
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Return all series, or why not."""
        guard = self._guard()
        if guard is not None and (refusal := await guard.refusal(request)) is not None:
            return refusal
        process = await asyncio.to_thread(generate_latest, self._process)
        body = generate_latest(self._registry) + process
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


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
