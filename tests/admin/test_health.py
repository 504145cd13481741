"""What probes are told."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from proxy.admin.health import (
    PING,
    EventLoopHeartbeat,
    HealthCheck,
    HealthHandler,
)
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from tests.admin.listening import new_server
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
    ready = [HealthCheck("shutdown", lambda: None), HealthCheck("own", lambda: sickness.fault)]
    pages = {
        "livez": HealthHandler("livez", [PING]),
        "readyz": HealthHandler("readyz", ready),
        "healthz": HealthHandler("healthz", [PING]),
    }
    with ReservedPort() as port:
        server = new_server(pages)
        await server.start(LOOPBACK, port.number)
        yield f"http://{LOOPBACK}:{port.number}"
        await server.stop()


async def get(url: str) -> tuple[int, str]:
    async with (
        asyncio.timeout(5),
        aiohttp.ClientSession() as session,
        session.get(url) as answer,
    ):
        if answer.status != 404:
            assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/healthz", "/livez/ping", "/readyz/own", "/readyz?exclude=x"]
)
async def test_who_is_well_says_ok(url: str, path: str) -> None:
    assert await get(url + path) == (200, "ok")


async def test_who_is_not_ready_says_which_check_failed_and_why(
    url: str, sickness: Sickness
) -> None:
    sickness.fault = "not known yet"

    assert await get(f"{url}/readyz") == (
        503,
        "[+]shutdown ok\n[-]own failed: not known yet\nreadyz check failed\n",
    )
    assert await get(f"{url}/readyz/own") == (503, "internal server error: not known yet\n")
    assert await get(f"{url}/readyz/shutdown") == (200, "ok")
    assert await get(f"{url}/livez") == (200, "ok")
    assert await get(f"{url}/healthz") == (200, "ok")


async def test_every_check_is_listed_on_demand(url: str) -> None:
    assert await get(f"{url}/readyz?verbose") == (
        200,
        "[+]shutdown ok\n[+]own ok\nreadyz check passed\n",
    )


async def test_a_check_that_is_left_out_cannot_fail(url: str, sickness: Sickness) -> None:
    sickness.fault = "not known yet"

    assert await get(f"{url}/readyz?exclude=own") == (200, "ok")
    assert await get(f"{url}/readyz?verbose&exclude=own&exclude=shutdown") == (
        200,
        "[+]shutdown excluded: ok\n[+]own excluded: ok\nreadyz check passed\n",
    )
    assert (await get(f"{url}/readyz?exclude=shutdown"))[0] == 503


async def test_whoever_leaves_out_what_is_not_there_is_warned(url: str) -> None:
    assert await get(f'{url}/readyz?verbose&exclude=z&exclude=a"b&exclude=own') == (
        200,
        "[+]shutdown ok\n[+]own excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "a\\"b","z"\n'
        "readyz check passed\n",
    )


@pytest.mark.parametrize("path", ["/readyz/", "/readyz/ping", "/readyz/own/", "/other"])
async def test_there_is_no_page_of_a_check_that_is_not_there(url: str, path: str) -> None:
    assert (await get(url + path))[0] == 404


def test_a_loop_that_keeps_no_house_any_more_is_not_alive() -> None:
    clock = FakeClock()
    heartbeat = EventLoopHeartbeat(clock, silence_seconds=30)
    clock.advance(30)
    assert heartbeat.health_error() is None

    clock.advance(1)
    assert heartbeat.health_error() == "no heartbeat for 31s"

    heartbeat.beat()
    assert heartbeat.health_error() is None
