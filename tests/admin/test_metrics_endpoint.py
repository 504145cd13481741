"""The page /metrics: rendered at most once a second, whoever asks how often."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterable

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.admin.connections import AdminConnections, AdminLimits
from proxy.admin.metrics_endpoint import MetricsHandler
from proxy.admin.server import AdminServer
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from tests.admin.listening import AdminMetrics
from tests.support.clock import FakeClock

FAMILIES = 5


class Collected(Collector):
    """Notes when it is read."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def collect(self) -> Iterable[Metric]:
        self.times.append(time.monotonic())
        return [CounterMetricFamily("times_total", "How often.", value=len(self.times))]


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
async def url(collected: Collected) -> AsyncIterator[str]:
    registry = CollectorRegistry()
    registry.register(collected)
    page = MetricsHandler(registry, clock=time.monotonic)
    connections = AdminConnections(AdminLimits(), AdminMetrics().counter, clock=time.monotonic)
    with ReservedPort() as port:
        server = AdminServer(page, {}, connections)
        await server.start(LOOPBACK, port.number)
        yield f"http://{LOOPBACK}:{port.number}/metrics"
        await server.stop()


async def scraped(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        assert answer.status == 200
        return await answer.text()


async def test_scrapers_at_the_same_time_share_a_page(url: str, collected: Collected) -> None:
    async with aiohttp.ClientSession() as session:
        await scraped(session, url)
        pages = await asyncio.gather(*(scraped(session, url) for _ in range(10)))

    assert len({page.partition("# HELP process_")[0] for page in pages}) == 1
    assert len(collected.times) <= 3  # one of them may have come while a page was being made


async def test_a_scraper_in_a_loop_gets_one_page_a_second(url: str, collected: Collected) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            await scraped(session, url)

    first, second, third = collected.times[-3:]
    assert second - first > 0.99
    assert third - second > 0.99


async def test_no_page_is_older_than_its_request(url: str, collected: Collected) -> None:
    async with aiohttp.ClientSession() as session:
        await scraped(session, url)
        before = len(collected.times)

        page = await scraped(session, url)

    assert f"times_total {before + 1}.0" in page


async def test_other_work_has_its_turn_between_two_families() -> None:
    class OneFamily(Collector):
        """Notes when it is read."""

        def __init__(self, number: int) -> None:
            self.number = number

        def collect(self) -> Iterable[Metric]:
            taken.append(f"family {self.number}")
            return [CounterMetricFamily(f"one{self.number}_total", "One.", value=1)]

        def describe(self) -> Iterable[Metric]:
            return []

    taken: list[str] = []
    registry = CollectorRegistry()
    for number in range(FAMILIES):
        registry.register(OneFamily(number))

    async def other_work() -> None:
        while len(taken) < 2 * FAMILIES:
            taken.append("other work")
            await asyncio.sleep(0)

    page = MetricsHandler(registry, clock=time.monotonic)
    work = asyncio.ensure_future(other_work())
    await page._render()
    await work

    families = [place for place, one in enumerate(taken) if one.startswith("family")]
    assert len(families) == FAMILIES
    assert all(later - earlier > 1 for earlier, later in itertools.pairwise(families))


class Failing(Collector):
    """Fails once, and after a moment, so that others come to wait."""

    def __init__(self) -> None:
        self.has_failed = False

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily("before_total", "Before.", value=1)
        if not self.has_failed:
            self.has_failed = True
            raise ValueError("cannot be read")

    def describe(self) -> Iterable[Metric]:
        return []


async def test_page_that_could_not_be_rendered_is_not_served_to_scrapers_that_wait() -> None:
    registry, clock = CollectorRegistry(), FakeClock()
    registry.register(Failing())
    page = MetricsHandler(registry, clock=clock)

    def begin() -> asyncio.Future[bytes]:
        return asyncio.ensure_future(page._page_since(clock()))

    first, second = begin(), begin()
    await asyncio.wait([first])
    clock.advance(1)

    with pytest.raises(ValueError, match="cannot be read"):
        await first
    assert b"before_total" in await second
