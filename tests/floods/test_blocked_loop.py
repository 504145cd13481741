"""A proxy whose event loop is really blocked says so: in its metrics, and in its log with where."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.floods.conftest import log_of
from tests.support.certificates import Certificates
from tests.support.http_client import Headers, connected
from tests.support.scripted_api_server import ScriptedApiServer
from tests.support.serve_process import Understudy, serving_by

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def understudy(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[Understudy]:
    program = ("tests.support.blocking_proxy",)
    async with serving_by({}, api, certificates, tmp_path, program=program) as understudy:
        await understudy.wait_for("/readyz", 200)
        yield understudy


def blocking(seconds: float) -> Headers:
    return [("X-Block", str(seconds))]


async def blocked_lines(understudy: Understudy) -> list[dict[str, object]]:
    lines = map(json.loads, (await log_of(understudy.log_file)).splitlines())
    return [line for line in lines if line["message"] == "event loop blocked"]


async def test_a_blocked_loop_is_counted_and_located(understudy: Understudy) -> None:
    before = await understudy.metric("understudy_event_loop_blocked_total")
    async with connected(understudy.address, understudy.context) as client:
        assert (await client.request(headers=blocking(0.8))).status == 200
    async with asyncio.timeout(10):
        while await understudy.metric("understudy_event_loop_blocked_total") <= before:
            pass

    assert await understudy.metric("understudy_event_loop_blocked_seconds_total") > 0.6
    lines = [line for line in await blocked_lines(understudy) if is_ours(line)]
    assert len(lines) == 1
    assert lines[0]["level"] == "warning"
    assert float(str(lines[0]["seconds"])) > 0.6


def is_ours(line: dict[str, object]) -> bool:
    """Tell whether the place is the code that called what blocks."""
    return "Pipeline." in str(line["location"])


async def test_who_is_ended_while_blocked_has_said_where(understudy: Understudy) -> None:
    async with connected(understudy.address, understudy.context) as client:
        request = asyncio.ensure_future(client.request(headers=blocking(30)))
        async with asyncio.timeout(20):
            while not any(map(is_ours, await blocked_lines(understudy))):  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.1)
        understudy.process.send_signal(signal.SIGKILL)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
