"""Bearer tokens by the thousand: how many reviews they cost, and whom a flood of them hurts."""

import asyncio
import json
import logging
import re
import statistics
import time
from collections.abc import Iterator
from urllib.request import urlopen

import aiohttp
import pytest

from proxy.sandbox.api_client import ApiClient, client_context
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.identities import BearerToken
from proxy.sandbox.objects import create_service_account, token_for
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.programs.binaries import Binaries
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.control_plane import fresh_name
from tests.support.flooding import flood, with_a_guess
from tests.support.sizes import sized, soak

log = logging.getLogger(__name__)

# Quiet and flooded in turns, so that what else runs on the machine falls on both alike; thousands
# of requests, because a p99 of few is mostly chance.
ROUNDS = sized(10, full=20)
REQUESTS = 300
ELSEWHERE = "127.0.0.2"
WITHOUT_LIMITS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)


@pytest.fixture(scope="module")
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """A cluster of its own, because its API server must bear a thousand requests at once."""
    with ControlPlane(binaries) as started:
        yield started


@pytest.fixture(scope="module")
def plain_api_server(control_plane: ControlPlane) -> ApiServer:
    """Its one API server, without the feature."""
    options = ApiServerOptions(
        name="plain", constrained_impersonation=False, extra_flags=WITHOUT_LIMITS
    )
    return control_plane.start_api_server(options)


@pytest.fixture(scope="module")
def understudy(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ProxyProcess]:
    settings: dict[str, dict[str, object]] = {
        "serving": {"limits": {"readsInFlight": 2000}},
        # A thousand requests may take a while on a busy machine.
        "authentication": {"tokenReview": {"successTTL": "60s"}},
    }
    with ProxyProcess(control_plane, plain_api_server, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def admin_port() -> Iterator[int]:
    with ReservedPort() as port:
        yield port.number


@pytest.fixture(scope="module")
def rationing_understudy(
    control_plane: ControlPlane, plain_api_server: ApiServer, admin_port: int
) -> Iterator[ProxyProcess]:
    """One whose addresses have used up their burst soon; in the long run they may cost as much."""
    settings: dict[str, dict[str, object]] = {
        "admin": {"address": f"{LOOPBACK}:{admin_port}"},
        "authentication": {"tokenReview": {"successTTL": "1s", "perAddressBurst": 50}},
    }
    with ProxyProcess(control_plane, plain_api_server, settings=settings) as running:
        yield running


@pytest.fixture
def robot(admin: ApiClient, namespace: str) -> BearerToken:
    name = fresh_name("robot")
    create_service_account(admin, namespace, name)
    return token_for(admin, namespace, name)


def token_reviews(api_server: ApiServer) -> int:
    """Return how many the API server has written down."""
    lines = api_server.audit_log.read_bytes().rpartition(b"\n")[0].splitlines()
    events = [json.loads(line) for line in lines if b"tokenreviews" in line]
    return sum(event["stage"] == "ResponseComplete" for event in events)


@pytest.mark.timeout(240)
def test_a_thousand_first_requests_with_one_token_cause_one_review(
    understudy: ProxyProcess, plain_api_server: ApiServer, robot: BearerToken
) -> None:
    context = client_context(understudy.ca_pem)

    async def ask_all() -> list[int]:
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def ask(headers: dict[str, str]) -> int:
                async with session.get(f"{understudy.url}/version", headers=headers) as answer:
                    await answer.read()
                    return answer.status

            # Connections first, so that the requests themselves arrive together.
            strangers = await asyncio.gather(*(ask({}) for _ in range(1000)))
            assert set(strangers) == {401}
            shown = {"Authorization": f"Bearer {robot.value}"}
            return await asyncio.gather(*(ask(shown) for _ in range(1000)))

    before = token_reviews(plain_api_server)
    statuses = asyncio.run(ask_all())
    # The API server writes in order: what came before this one is written when this one is.
    understudy.client(BearerToken("nobody's")).request("GET", "/version")
    deadline = time.monotonic() + 10
    while token_reviews(plain_api_server) < before + 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    assert statuses == [200] * 1000
    assert token_reviews(plain_api_server) == before + 2


def seconds_of_requests(client: ApiClient) -> list[float]:
    seconds = []
    with client.connect() as connection:
        for _ in range(REQUESTS):
            started = time.perf_counter()
            response = connection.request("GET", "/version")
            seconds.append(time.perf_counter() - started)
            assert response.status == 200
    return seconds


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


def turned_away(admin_port: int) -> float:
    with urlopen(f"http://{LOOPBACK}:{admin_port}/metrics") as answer:
        page = answer.read().decode()
    series = r'^understudy_tokens_rejected_total\{reason="address"\} (\S+)$'
    return sum(map(float, re.findall(series, page, re.MULTILINE)))


@soak
@pytest.mark.timeout(240)
def test_a_flood_of_unknown_tokens_leaves_others_alone(
    rationing_understudy: ProxyProcess, robot: BearerToken, admin_port: int
) -> None:
    understudy = rationing_understudy
    client = understudy.client(robot)
    quiet: list[float] = []
    loaded: list[float] = []

    with flood(
        understudy.url,
        understudy.ca_pem,
        None,
        "/version",
        headers=with_a_guess,
        source=ELSEWHERE,
    ) as flooding:
        for _ in range(ROUNDS):
            quiet += seconds_of_requests(client)
            with flooding.running() as statuses:
                loaded += seconds_of_requests(client)
            assert statuses == {401, 429}

    log.info("p99 without the flood %.2f ms, with it %.2f ms", p99(quiet) * 1e3, p99(loaded) * 1e3)
    assert turned_away(admin_port) > 0
    assert p99(loaded) < 2 * p99(quiet)
