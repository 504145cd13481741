"""An API server that serves but does not review: doubt is denial, and costs no time."""

import asyncio
import time

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.event_loops import eventually
from tests.support.http_client import Headers, HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

TTL_SECONDS = 1.0
OPEN_BREAKER_SECONDS = 0.010
UNAVAILABLE = (503, "ServiceUnavailable", 503)


@pytest.fixture
def impersonation_settings() -> dict[str, str]:
    return {"successTTL": f"{TTL_SECONDS:.0f}s"}


def take_down(api: ScriptedApiServer) -> None:
    """Answer no review any more, not even about a made-up user."""
    api.review_status = "500 Internal Server Error"
    api.own_calls.answers_canaries = False


async def until_it_is_open(client: HttpClient, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(10):
        await client.request(headers=acting_as(f"user-{number}"))
    await eventually(lambda: "review breaker opened" in caplog.text)


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
    api: ScriptedApiServer,
    client: HttpClient,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    take_down(api)
    await until_it_is_open(client, caplog)
    reviewed = len(api.reviewed_access)

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
    assert len(api.reviewed_access) == reviewed


async def test_reviews_that_come_back_are_asked_again(
    api: ScriptedApiServer, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    take_down(api)
    await until_it_is_open(client, caplog)

    api.review_status = "201 Created"
    api.own_calls.answers_canaries = True

    async with asyncio.timeout(5):
        while (  # noqa: ASYNC110 - only its answers tell
            await client.request(headers=acting_as("bob"))
        ).status != 200:
            await asyncio.sleep(0.05)
    assert "review breaker closed" in caplog.text


async def test_an_open_breaker_is_probed_by_no_request(
    api: ScriptedApiServer, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is open, only the canary asks: at most two times a second, whoever calls."""
    take_down(api)
    await until_it_is_open(client, caplog)
    reviewed, probed = len(api.reviewed_access), len(api.own_calls.canaries)
    loop = asyncio.get_running_loop()
    started = loop.time()

    while loop.time() < started + 1.5:
        assert (await client.request(headers=acting_as("bob"))).status == 503

    assert len(api.reviewed_access) == reviewed
    assert 1 <= len(api.own_calls.canaries) - probed <= 4


async def test_a_dead_api_server_costs_milliseconds(
    api: ScriptedApiServer, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    api.stop_listening()
    for connection in list(api.connections.values()):
        connection.close()
    await until_it_is_open(client, caplog)

    seconds = []
    for number in range(20):
        started = time.perf_counter()
        answer = await client.request(headers=acting_as(f"other-{number}"))
        seconds.append(time.perf_counter() - started)
        assert status_of(answer) == UNAVAILABLE

    assert sorted(seconds)[len(seconds) // 2] < OPEN_BREAKER_SECONDS
