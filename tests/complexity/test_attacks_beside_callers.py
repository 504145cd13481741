"""Other callers while one attacker sends the published attacks, ten of each a second."""

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.attacks import Attack, all_attacks, attacking, costly_attacks
from tests.support.certificates import Certificates, new_certificates
from tests.support.http_client import connected
from tests.support.scripted_api_server import scripted_api_server
from tests.support.serve_process import Understudy, serving
from tests.support.sizes import IS_SOAKING, sized, soak

log = logging.getLogger(__name__)

CALLERS = 8
CALLS_PER_SECOND = 25.0
PER_SECOND = 10.0
MOST_LIVEZ_SECONDS = 1.0
MOST_RATIO = 2.0
# Each sender waits for the response of one request before it sends the next.
LEAST_RATE = 0.9
# Short windows in turn, so that what else happens on the machine is in both halves alike.
WINDOW_SECONDS = sized(3, full=5)
ROUNDS = sized(2, full=20)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def rate_of(attack: Attack, outcomes: Counter[str]) -> float:
    """Return how often an attack was sent in one second of its windows."""
    count = sum(times for one, times in outcomes.items() if one.startswith(f"{attack.name}: "))
    return count / (ROUNDS * WINDOW_SECONDS)


async def call(address: tuple[str, int], context: ssl.SSLContext, until: float) -> list[float]:
    """Call at a steady rate and return how long each call took; every one must succeed."""
    taken: list[float] = []
    async with connected(address, context) as client:
        due = time.monotonic()
        while time.monotonic() < until:
            started = time.monotonic()
            response = await client.request()
            assert response.status == 200, response
            taken.append(time.monotonic() - started)
            due = max(due + 1 / CALLS_PER_SECOND, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
    return taken


async def probe(understudy: Understudy, until: float) -> list[float]:
    """Ask for /livez ten times a second and return how long each answer took."""
    taken: list[float] = []
    while time.monotonic() < until:
        started = time.monotonic()
        assert (await understudy.probe("/livez"))[0] == 200
        taken.append(time.monotonic() - started)
        await asyncio.sleep(0.1)
    return taken


async def measure(
    understudy: Understudy, contexts: list[ssl.SSLContext]
) -> tuple[list[float], list[float]]:
    """Return the durations of all calls of a window, and of all probes."""
    until = time.monotonic() + WINDOW_SECONDS
    *calls, probes = await asyncio.gather(
        *(call(understudy.address, one, until) for one in contexts), probe(understudy, until)
    )
    return [one for taken in calls for one in taken], probes


@asynccontextmanager
async def running(certificates: Certificates, directory: Path) -> AsyncIterator[Understudy]:
    audit = {"log": {"path": str(directory / "audit.log")}}
    async with (
        scripted_api_server(certificates) as api,
        serving(api, certificates, directory, audit=audit) as understudy,
    ):
        await understudy.wait_for("/readyz", 200)
        yield understudy


@soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", ["costly", "all"])
async def test_published_attacks_do_not_delay_other_callers(tmp_path: Path, chosen: str) -> None:
    certificates = new_certificates()
    contexts = [certificates.client_context(f"caller-{one}") for one in range(CALLERS)]
    mallory = certificates.clients.issue_cert("client.test", common_name="mallory")
    client_pem = mallory.private_key_and_cert_chain_pem.bytes()
    attacks = all_attacks(client_pem) if chosen == "all" else costly_attacks()
    quiet: list[float] = []
    attacked: list[float] = []
    late: list[float] = []
    outcomes: Counter[str] = Counter()
    async with running(certificates, tmp_path) as understudy:
        await measure(understudy, contexts)  # warm-up
        for _ in range(ROUNDS):
            quiet += (await measure(understudy, contexts))[0]
            with attacking(understudy.address, attacks, per_second=PER_SECOND) as seen:
                calls, probes = await measure(understudy, contexts)
            outcomes += seen
            attacked += calls
            late += probes
    log.info("outcomes of the attacks: %s", dict(outcomes))
    rates = {attack.name: rate_of(attack, outcomes) for attack in attacks}
    log.info("slowest of the attacks: %.1f a second", min(rates.values()))
    figures = [1000 * percentile(one, 0.99) for one in (quiet, attacked, late)]
    log.info("p99 quiet %.1f ms, attacked %.1f ms, livez %.1f ms", *figures)
    log.info(
        "worst quiet %.1f ms, attacked %.1f ms, livez %.1f ms",
        *(1000 * max(one) for one in (quiet, attacked, late)),
    )
    log.info("p99 attacked by p99 quiet %.2f", figures[1] / figures[0])
    assert min(rates.values()) > 0
    assert max(late) <= MOST_LIVEZ_SECONDS
    # A ratio of percentiles needs a machine of its own and many calls. So does the rate.
    if IS_SOAKING:
        assert min(rates.values()) >= LEAST_RATE * PER_SECOND
        assert figures[1] <= MOST_RATIO * figures[0]
