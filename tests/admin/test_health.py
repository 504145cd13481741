"""What probes are told."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proxy.admin.health import HealthCheck, Heartbeat
from proxy.admin.server import AdminServer
from proxy.sandbox.ports import LOOPBACK, ReservedPort
from tests.support.clock import FakeClock


class Sickness:
    """A check that fails while it has a fault."""

    def __init__(self) -> None:
        self.fault: str | None = None


@pytest.fixture
def sickness() -> Sickness:
    return Sickness()


@pytest.fixture
async def url(sickness: Sickness) -> AsyncIterator[str]:
    with ReservedPort() as port:
        server = AdminServer(
            CollectorRegistry(),
            live=[HealthCheck("event-loop", lambda: None)],
            ready=[
                HealthCheck("shutdown", lambda: None),
                HealthCheck("own-identity", lambda: sickness.fault),
            ],
        )
        await server.start(LOOPBACK, port.number)
        yield f"http://{LOOPBACK}:{port.number}"
        await server.stop()


async def get(url: str) -> tuple[int, str]:
    async with (
        asyncio.timeout(5),
        aiohttp.ClientSession() as session,
        session.get(url) as answer,
    ):
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return answer.status, await answer.text()


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_who_is_well_says_ok(url: str, path: str) -> None:
    assert await get(url + path) == (200, "ok")


async def test_who_is_not_ready_says_which_check_failed_and_why(
    url: str, sickness: Sickness
) -> None:
    sickness.fault = "not known yet"

    assert await get(f"{url}/readyz") == (
        503,
        "[+]shutdown ok\n[-]own-identity failed: not known yet\nreadyz check failed\n",
    )
    assert await get(f"{url}/livez") == (200, "ok")


async def test_every_check_is_listed_on_demand(url: str) -> None:
    assert await get(f"{url}/readyz?verbose") == (
        200,
        "[+]shutdown ok\n[+]own-identity ok\nreadyz check passed\n",
    )


def test_a_loop_that_keeps_no_house_any_more_is_not_alive() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock, silence_seconds=30)
    clock.advance(30)
    assert heartbeat.fault() is None

    clock.advance(1)
    assert heartbeat.fault() == "no heartbeat for 31s"

    heartbeat.beat()
    assert heartbeat.fault() is None
