"""Reviews that one caller makes fail: they cost that caller alone, and open no breaker."""

import asyncio
import json

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.http_client import Headers, HttpClient
from tests.support.scripted_api_server import NO_ANSWER, ScriptedApiServer

MALLORY = "mallory"
DOCUMENT_BYTES = 8192
ATTACKS = 12
TOO_LARGE = "access cannot be reviewed: the review of this request would have more than 8192 bytes"


@pytest.fixture
def impersonation_settings() -> dict[str, object]:
    return {"reviews": {"timeout": "2s", "documentBytes": DOCUMENT_BYTES}}


def acting_as(user: str) -> Headers:
    return [("Impersonate-User", user)]


async def attack(connect: Connect, number: int) -> tuple[int, str, int]:
    """Ask for something else each time: equal access checks under way share one review."""
    target = f"/api/v1/namespaces/namespace-{number}/pods"
    async with connect(MALLORY) as client:
        return status_of(await client.request(target=target, headers=acting_as("somebody")))


async def attacked(
    connect: Connect, client: HttpClient
) -> tuple[set[tuple[int, str, int]], set[int]]:
    """Return what the attacker is told, all at once and thrice, and what another caller is."""
    told: set[tuple[int, str, int]] = set()
    others: set[int] = set()
    for first in (0, ATTACKS, 2 * ATTACKS):
        numbers = range(first, first + ATTACKS)
        told |= set(await asyncio.gather(*(attack(connect, number) for number in numbers)))
        others |= {
            (await client.request(headers=acting_as(f"user-{number}"))).status for number in numbers
        }
    return told, others


@pytest.mark.parametrize(
    "status", ["400 Bad Request", "413 Payload Too Large", "422 Unprocessable Entity"]
)
async def test_a_review_that_the_api_server_refuses_is_the_callers_400(
    api: ScriptedApiServer,
    connect: Connect,
    client: HttpClient,
    status: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.review_faults[MALLORY] = status

    told, others = await attacked(connect, client)

    assert told == {(400, "BadRequest", 400)}
    assert others == {200}
    assert "review breaker opened" not in caplog.text


@pytest.mark.parametrize(
    "fault", ["500 Internal Server Error", "429 Too Many Requests", "404 Not Found", NO_ANSWER]
)
async def test_reviews_that_fail_for_one_caller_open_no_breaker(
    api: ScriptedApiServer,
    connect: Connect,
    client: HttpClient,
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An authorizer that is slow or fails for one caller: the probe is answered nevertheless."""
    api.review_faults[MALLORY] = fault

    told, others = await attacked(connect, client)
    api.held_gate.set()

    assert told == {(503, "ServiceUnavailable", 503)}
    assert others == {200}
    assert "review breaker opened" not in caplog.text


async def test_a_flood_of_failing_reviews_is_no_flood_of_probes(
    api: ScriptedApiServer, connect: Connect, client: HttpClient
) -> None:
    api.review_faults[MALLORY] = "500 Internal Server Error"
    probed = len(api.own_calls.canaries)
    loop = asyncio.get_running_loop()
    started = loop.time()

    async with connect(MALLORY) as mallory:
        while loop.time() < started + 1.5:
            await mallory.request(headers=acting_as("somebody"))

    # The least time between two is half a second.
    assert len(api.own_calls.canaries) - probed <= 5


async def test_a_review_that_would_be_too_large_is_never_sent(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    selector = ",".join(f"label-{number}" for number in range(300))
    target = f"/api/v1/pods?labelSelector={selector}"
    before = len(api.reviewed_access)

    refused = await client.request(target=target, headers=acting_as("bob"))
    served = await client.request(target="/api/v1/pods?labelSelector=a", headers=acting_as("bob"))

    assert status_of(refused) == (400, "BadRequest", 400)
    assert json.loads(refused.body)["message"] == TOO_LARGE
    assert served.status == 200
    assert all(
        "labelSelector" not in str(spec) or "label-" not in str(spec)
        for spec in api.reviewed_access[before:]
    )
