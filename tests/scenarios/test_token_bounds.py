"""Unknown tokens beyond the measure: what their clients are told, and who is not affected."""

import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from proxy.runtime.proxy import run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.settings.model import Settings
from tests.scenarios.conftest import Connect, settings_document, status_of, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import Headers, Response
from tests.support.scripted_api_server import ScriptedApiServer

BURST = 3


@pytest.fixture
async def metrics_url() -> AsyncIterator[str]:
    with ReservedPort() as port:
        yield f"http://{LOOPBACK}:{port.number}/metrics"


@pytest.fixture
async def proxy(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    metrics_url: str,
) -> AsyncIterator[tuple[str, int]]:
    document = settings_document(api, certificates, tmp_path)
    document["authentication"]["tokenReview"] = {"perAddressBurst": BURST, "perAddressPerSecond": 1}
    document["admin"] = {"address": metrics_url.split("/")[2]}
    async with run_proxy(Settings.model_validate(document)) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        api.requests.clear()
        yield proxy.address


def bearer(token: str) -> Headers:
    return [("Authorization", f"Bearer {token}")]


async def ask(connect: Connect, token: str) -> Response:
    async with connect(None) as client:
        return await client.request(headers=bearer(token))


async def counted(url: str) -> set[str]:
    """Return every sample about tokens but for the sums and buckets of their durations."""
    async with aiohttp.ClientSession() as session, session.get(url) as page:
        lines = (await page.text()).splitlines()
    found = {line for line in lines if line.startswith("understudy_token")}
    return {line for line in found if "_bucket" not in line and "_sum" not in line}


async def test_one_guess_too_many_is_a_429_and_costs_no_review(
    api: ScriptedApiServer, connect: Connect, metrics_url: str
) -> None:
    api.tokens["good"] = "alice"
    assert (await ask(connect, "good")).status == 200
    guesses: list[str] = []
    # A slow machine gives time for some more than the burst.
    while (answer := await ask(connect, f"guess-{len(guesses)}")).status != 429:
        assert status_of(answer) == (401, "Unauthorized", 401)
        guesses.append(f"guess-{len(guesses)}")
        assert len(guesses) < 10 * BURST

    assert len(guesses) >= BURST
    assert status_of(answer) == (429, "TooManyRequests", 429)
    assert answer.values("retry-after") == ["1"]
    assert api.reviewed_tokens == ["good", *guesses]
    # Whoever is known is served on, by a token that is remembered or by a certificate.
    assert (await ask(connect, "good")).status == 200
    async with connect("alice") as client:
        assert (await client.request()).status == 200
    assert await counted(metrics_url) == {
        'understudy_token_cache_lookups_total{result="hit"} 1.0',
        f'understudy_token_cache_lookups_total{{result="miss"}} {len(guesses) + 2}.0',
        'understudy_token_review_duration_seconds_count{outcome="authenticated"} 1.0',
        f'understudy_token_review_duration_seconds_count{{outcome="refused"}} {len(guesses)}.0',
        'understudy_tokens_rejected_total{reason="address"} 1.0',
    }


async def test_a_token_that_is_repeated_costs_one_review_in_two_seconds(
    api: ScriptedApiServer, connect: Connect
) -> None:
    for _ in range(2 * BURST):
        assert (await ask(connect, "guess")).status == 401

    assert api.reviewed_tokens == ["guess"]


async def test_an_outage_is_a_503_for_everybody_and_costs_nobody_its_ration(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.tokens["good"] = "alice"
    api.review_status = "500 Internal Server Error"
    for number in range(2 * BURST):
        refused = await ask(connect, f"token-{number}")
        assert status_of(refused) == (503, "ServiceUnavailable", 503)

    api.review_status = "201 Created"

    assert (await ask(connect, "good")).status == 200
