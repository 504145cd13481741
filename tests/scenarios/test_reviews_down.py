"""An API server that serves but does not review: doubt is denial, and costs no time."""

import asyncio
import time

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.http_client import Headers, HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

TTL_SECONDS = 1.0
OPEN_BREAKER_SECONDS = 0.010
UNAVAILABLE = (503, "ServiceUnavailable", 503)


@pytest.fixture
def impersonation_settings() -> dict[str, str]:
    return {"successTTL": f"{TTL_SECONDS:.0f}s"}


def acting_as(user: str) -> Headers:
    return [("Impersonate-User", user)]


async def test_every_request_that_needs_a_review_is_unavailable(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    api.review_status = "500 Internal Server Error"

    answers = [await client.request(headers=acting_as(f"user-{number}")) for number in range(50)]

    assert {status_of(answer) for answer in answers} == {UNAVAILABLE}
    assert {tuple(answer.values("retry-after")) for answer in answers} == {("1",)}
    assert api.requests == []


@pytest.mark.parametrize("status", ["429 Too Many Requests", "403 Forbidden", "404 Not Found"])
async def test_no_answer_of_the_review_is_taken_for_a_yes_or_a_no(
    api: ScriptedApiServer, client: HttpClient, status: str
) -> None:
    api.review_status = status

    answer = await client.request(headers=acting_as("bob"))

    assert status_of(answer) == UNAVAILABLE
    api.review_status = "201 Created"
    assert (await client.request(headers=acting_as("bob"))).status == 200


async def test_what_was_allowed_is_served_until_its_time_and_not_longer(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    assert (await client.request(headers=acting_as("bob"))).status == 200
    learned = time.monotonic()
    api.review_status = "500 Internal Server Error"

    statuses: list[tuple[float, int]] = []
    while not statuses or statuses[-1][1] == 200:
        answer = await client.request(headers=acting_as("bob"))
        statuses.append((time.monotonic() - learned, answer.status))
        await asyncio.sleep(0.02)

    ended, last = statuses[-1]
    assert last == 503
    assert ended == pytest.approx(TTL_SECONDS, abs=0.5)
    assert len(statuses) > 2


async def test_an_open_breaker_answers_at_once_and_lets_others_pass(
    api: ScriptedApiServer, client: HttpClient, connect: Connect
) -> None:
    api.review_status = "500 Internal Server Error"
    for number in range(10):
        await client.request(headers=acting_as(f"user-{number}"))

    seconds = []
    for number in range(20):
        started = time.perf_counter()
        answer = await client.request(headers=acting_as(f"other-{number}"))
        seconds.append(time.perf_counter() - started)
        assert answer.status == 503
    async with connect("carol") as carol:
        as_herself = await carol.request()

    assert sorted(seconds)[len(seconds) // 2] < OPEN_BREAKER_SECONDS
    assert as_herself.status == 200


async def test_reviews_that_come_back_are_asked_again(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    api.review_status = "500 Internal Server Error"
    for number in range(10):
        await client.request(headers=acting_as(f"user-{number}"))

    api.review_status = "201 Created"

    async with asyncio.timeout(5):
        while (  # noqa: ASYNC110 - only its answers tell
            await client.request(headers=acting_as("bob"))
        ).status != 200:
            await asyncio.sleep(0.05)
