"""A wall clock that jumps: certificates are judged by it anew, and nothing else depends on it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document
from tests.support.certificates import Certificates
from tests.support.http_client import HttpClient, connected
from tests.support.loop_lag import watched_loop
from tests.support.scripted_api_server import ScriptedApiServer

HOUR, DAY, DECADE = timedelta(hours=1), timedelta(days=1), timedelta(days=3652)
STEPS = [-DECADE, -HOUR, timedelta(seconds=-1), timedelta(seconds=1), HOUR, DECADE]
TOKEN = [("Authorization", "Bearer bobs-token")]
AS_CAROL = [("Impersonate-User", "carol")]


class WallClock:
    """The time of day, set by whoever likes."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


@pytest.fixture
def wall_clock(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    clock = WallClock()
    monkeypatch.setattr("proxy.runtime.proxy._wall_clock", clock)
    return clock


@pytest.fixture
async def proxy(
    wall_clock: WallClock, api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[Proxy]:
    api.tokens["bobs-token"] = "bob"
    document = settings_document(api, certificates, tmp_path, impersonation={"successTTL": "1s"})
    document["authentication"]["tokenReview"] = {"successTTL": "1s"}
    async with run_proxy(Settings.model_validate(document)) as proxy:
        async with connected(proxy.address, certificates.client_context()) as client:
            while (await client.request(headers=TOKEN)).status != 200:  # noqa: ASYNC110 - tells alone
                await asyncio.sleep(0.01)
        yield proxy


async def status(client: HttpClient) -> int:
    return (await client.request()).status


async def test_a_certificate_is_good_by_the_clock_of_each_request(
    proxy: Proxy, wall_clock: WallClock, certificates: Certificates
) -> None:
    """On one open connection: no outcome of another time is remembered for this one."""
    context = certificates.client_context()
    now = datetime.now(UTC)
    certificates.clients.issue_cert(
        "client.test", common_name="alice", not_before=now - DAY, not_after=now + DAY
    ).configure_cert(context)
    outcomes = []
    async with connected(proxy.address, context) as client:
        for step in (0, 1, -1, 0, 1, 0, -1, -1, 0):
            wall_clock.offset = step * DECADE
            outcomes.append(await status(client))
        for small in (-1, 1, -2, 0, 3600, -3600):
            wall_clock.offset = timedelta(seconds=small)
            outcomes.append(await status(client))

    assert outcomes == [200, 401, 401, 200, 401, 200, 401, 401, 200] + [200] * 6


@pytest.mark.parametrize("step", [-DECADE, DECADE], ids=str)
async def test_what_is_remembered_of_tokens_and_grants_ends_by_time_that_passes(
    proxy: Proxy,
    wall_clock: WallClock,
    certificates: Certificates,
    api: ScriptedApiServer,
    step: timedelta,
) -> None:
    """Neither longer nor shorter by a jump: memories are kept by the monotonic clock."""
    async with connected(proxy.address, certificates.client_context()) as client:
        assert (await client.request(headers=[*TOKEN, *AS_CAROL])).status == 200
        wall_clock.offset = step
        api.tokens.clear()
        api.access_status = {"allowed": False}
        reviews = len(api.reviews)

        assert (await client.request(headers=[*TOKEN, *AS_CAROL])).status == 200
        assert len(api.reviews) == reviews
        await asyncio.sleep(1.1)

        assert (await client.request(headers=[*TOKEN, *AS_CAROL])).status == 401


@pytest.mark.parametrize("step", STEPS, ids=str)
async def test_a_jump_starts_no_storm_and_ends_no_work(
    proxy: Proxy,
    wall_clock: WallClock,
    certificates: Certificates,
    api: ScriptedApiServer,
    step: timedelta,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected(proxy.address, certificates.client_context()) as client:
        probes, tokens = api.probes, api.own_calls.issued
        wall_clock.offset = step
        async with watched_loop() as lag:
            for _ in range(20):
                assert (await client.request(headers=TOKEN)).status == 200
                await asyncio.sleep(0.01)

    assert api.probes <= probes + 2
    assert api.own_calls.issued == tokens
    assert "background task failed" not in caplog.messages
    assert lag.worst_seconds < 0.5
