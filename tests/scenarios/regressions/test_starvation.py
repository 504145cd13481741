"""Regressions 30 to 33: memory and slots that clients without a credential must not take."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from proxy.settings.model import Settings
from tests.scenarios.conftest import Connect
from tests.scenarios.regressions.conftest import Change
from tests.support.event_loops import eventually
from tests.support.http_client import request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest

CONNECTIONS = 6
LIMITS = {
    "connections": CONNECTIONS,
    "connections_per_address": CONNECTIONS,
    "unauthenticated_bytes": 400_000,
    "unauthenticated_address_percent": 100,
    "response_progress_timeout_seconds": 1.0,
    "reads_in_flight": 1,
}


@pytest.fixture
def change() -> Change:
    def hold_to_limits(settings: Settings) -> Settings:
        limits = settings.serving.limits.model_copy(update=LIMITS)
        serving = settings.serving.model_copy(update={"limits": limits})
        return settings.model_copy(update={"serving": serving})

    return hold_to_limits


async def test_20_a_whole_head_that_waits_for_its_review_is_counted(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.review_gate.clear()
    async with connect(None) as small, connect(None) as large:
        for client, size in ((small, 100), (large, 150_000)):
            headers = [("Authorization", f"Bearer {size}"), *[("X-Long", "x" * (size // 2))] * 2]
            await client.send(request_bytes(headers=headers))
        async with asyncio.timeout(10):
            assert (await large.read_response()).status == 429
        api.review_gate.set()

        assert (await small.read_response()).status == 401


async def test_21_a_token_above_the_limit_is_not_reviewed(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async with connect(None) as client:
        token = "x" * 70_000
        answer = await client.request(headers=[("Authorization", f"Bearer {token}")])

    assert answer.status == 431
    assert api.reviewed_tokens == []


async def test_22_silent_connections_give_their_places_to_newcomers(connect: Connect) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(2 * CONNECTIONS):
            await stack.enter_async_context(connect(None))
        async with connect("alice") as newcomer:
            assert (await newcomer.request()).status == 200


async def test_23_a_client_that_reads_nothing_gives_its_slot_back(
    api: ScriptedApiServer, connect: Connect
) -> None:
    async def large(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(b"x" * (30_000_000 if request.user == "mallory" else 2))

    api.script = large
    async with connect("mallory") as reader, connect("alice") as other:
        reader.stop_reading()
        await reader.send(request_bytes())
        await eventually(lambda: len(api.requests) == 1)
        assert (await other.request()).status == 429

        async with asyncio.timeout(15):
            while (await other.request()).status != 200:  # noqa: ASYNC110 - only answers tell
                await asyncio.sleep(0.05)
