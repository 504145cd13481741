"""The shadow before an API server that does not answer it: requests never feel it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from tests.scenarios.conftest import Section, settings_for, wait_until_it_admits
from tests.support.certificates import Certificates
from tests.support.http_client import HttpClient, connected
from tests.support.scripted_api_server import ScriptedApiServer

IN_FLIGHT, QUEUE = 2, 5
# A filter that knows only the unrestricted verb, so that every impersonation is by legacy.
IMPERSONATION: Section = {
    "constrained": False,
    "reviews": {"timeout": "60s"},
    "shadow": {"enabled": True, "inFlight": IN_FLIGHT, "queueSize": QUEUE},
}
SHADOWED = "understudy_shadow_requests_total"


@dataclass(frozen=True, slots=True)
class Shadowed:
    proxy: Proxy
    client: HttpClient

    def count(self, outcome: str, mode: str = "") -> float:
        registry = self.proxy.registry
        return registry.get_sample_value(SHADOWED, {"outcome": outcome, "mode": mode}) or 0.0

    @property
    def is_breaker_open(self) -> bool:
        return self.proxy.registry.get_sample_value("understudy_review_breaker_open") != 0

    async def statuses(self, users: range) -> set[int]:
        return {
            (await self.client.request(headers=[("Impersonate-User", f"user-{number}")])).status
            for number in users
        }


@pytest.fixture
def impersonation_settings() -> Section:
    return IMPERSONATION


@pytest.fixture
async def shadowed(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    sections: dict[str, Section],
) -> AsyncIterator[Shadowed]:
    settings = settings_for(api, certificates, tmp_path, **sections)
    async with run_proxy(settings) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        async with connected(proxy.address, context_of("alice")) as client:
            yield Shadowed(proxy, client)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - only its metrics tell
            await asyncio.sleep(0.01)


async def test_a_hanging_shadow_is_felt_by_nobody_and_drops_what_it_cannot_hold(
    api: ScriptedApiServer, shadowed: Shadowed
) -> None:
    api.held_verbs = "impersonate:"

    statuses = await shadowed.statuses(range(30))

    assert statuses == {200}
    assert len(api.requests) >= 30
    await until(lambda: api.held == IN_FLIGHT)
    assert shadowed.count("dropped") == 30 - IN_FLIGHT - QUEUE
    api.held_gate.set()
    await until(lambda: shadowed.count("would-allow", "user-info") == IN_FLIGHT + QUEUE)
    # Real decisions were never part of it.
    assert not shadowed.is_breaker_open


async def test_failing_reviews_of_the_shadow_do_not_open_the_breaker_of_decisions(
    api: ScriptedApiServer, shadowed: Shadowed
) -> None:
    api.refused_verbs = "impersonate-on:"

    for first in range(0, 12, 3):
        assert await shadowed.statuses(range(first, first + 3)) == {200}
        await until(lambda: shadowed.count("error") >= first + 3)  # noqa: B023 - used at once

    assert not shadowed.is_breaker_open
    assert await shadowed.statuses(range(100, 103)) == {200}


async def test_a_flood_of_shadowed_requests_is_bounded_and_delays_no_decision(
    api: ScriptedApiServer,
    shadowed: Shadowed,
    context_of: Callable[[str | None], ssl.SSLContext],
) -> None:
    """Many callers, each as many others, while no review of the shadow is answered."""
    api.held_verbs = "impersonate:"
    shadow = shadowed.proxy._components.authorizer._shadow
    assert shadow is not None
    loop = asyncio.get_running_loop()
    slowest = 0.0

    async def flood(caller: str) -> set[int]:
        nonlocal slowest
        statuses = set()
        async with connected(shadowed.proxy.address, context_of(caller)) as client:
            for number in range(40):
                began = loop.time()
                wanted = [("Impersonate-User", f"{caller}-{number}-{'x' * 200}")]
                statuses.add((await client.request(headers=wanted)).status)
                slowest = max(slowest, loop.time() - began)
        return statuses

    assert await asyncio.gather(*(flood(f"caller-{n}") for n in range(5))) == [{200}] * 5

    assert len(shadow._pending) <= IN_FLIGHT + QUEUE
    assert len(shadow._cached) == 0
    assert shadowed.count("dropped") >= 200 - IN_FLIGHT - QUEUE
    assert not shadowed.is_breaker_open
    # A review of the shadow hangs for up to 60 s here: a decision that waited for one would, too.
    assert slowest < 5
    api.held_gate.set()
    await until(lambda: not shadow._pending)


async def test_equal_requests_cost_one_judgement(
    api: ScriptedApiServer, shadowed: Shadowed
) -> None:
    statuses = await shadowed.statuses(range(1)) | await shadowed.statuses(range(1))
    await until(lambda: shadowed.count("would-allow", "user-info") == 2)

    asked = [
        (spec.get("resourceAttributes") or spec["nonResourceAttributes"])["verb"]
        for spec in api.reviewed_access
    ]

    assert statuses == {200}
    assert sorted(verb for verb in asked if ":" in verb) == [
        "impersonate-on:user-info:list",
        "impersonate:user-info",
    ]


@pytest.mark.parametrize(
    ("settings", "has_shadow", "looks_up_pods"),
    [
        ({}, False, False),
        ({"shadow": {"enabled": True}}, True, False),
        ({"shadow": {"enabled": True}, "boundPodLookup": True}, True, True),
    ],
    ids=["off", "on", "on, with the lookup of pods"],
)
async def test_authorizer_has_the_collaborators_that_are_switched_on(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    settings: Section,
    *,
    has_shadow: bool,
    looks_up_pods: bool,
) -> None:
    async with run_proxy(
        settings_for(api, certificates, tmp_path, impersonation=settings)
    ) as proxy:
        authorizer = proxy._components.authorizer

    assert (authorizer._shadow is not None) == has_shadow
    assert (authorizer._pod_nodes is not None) == looks_up_pods
