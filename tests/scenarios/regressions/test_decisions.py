"""Regressions 6, 12 and 13: what is authorized is what is forwarded; no answer is no permission."""

import asyncio
import json
import time
from typing import Any

import pytest

from proxy.settings.impersonation import ReviewSettings
from proxy.settings.model import Settings
from tests.scenarios.conftest import Connect, status_of
from tests.support.http_client import Headers, HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

WANTS_BOB: Headers = [("Impersonate-User", "bob")]
UNAVAILABLE = (503, "ServiceUnavailable", 503)


def pods(namespace: str = "", name: str = "", subresource: str = "") -> dict[str, str]:
    """Return the attributes of pods that a review names."""
    return {"resource": "pods", "namespace": namespace, "name": name, "subresource": subresource}


REVIEWED: dict[str, dict[str, str] | str] = {
    "/api/v1/namespaces/a/pods/p": pods("a", "p"),
    "/api/v1/namespaces/a/pods/../secrets/s": pods("a", "..", "secrets"),
    "/api/v1/namespaces/a/pods/p/..": pods("a", "p", ".."),
    "/api/v1/namespaces/a/pods/%2e%2e/secrets": pods("a", "..", "secrets"),
    "/api/v1/namespaces/a/pods%2Fp": pods("a", "p"),
    "/api%2Fv1%2Fnamespaces%2Fa%2Fpods": pods("a"),
    "/api/v1/namespaces/a/pods/p%2Flog": pods("a", "p", "log"),
    "//api/v1/namespaces/a/pods": pods("a"),
    "/api/v1/namespaces/a/pods/p//log": pods("a", "p", ""),
    "/api/v1/pods?a=/../secrets": pods(),
    "/healthz/../api/v1/secrets": "/healthz/../api/v1/secrets",
    "/healthz/%2e%2e/api/v1/secrets": "/healthz/../api/v1/secrets",
    "/./api/v1/secrets": "/./api/v1/secrets",
    "/healthz;/api/v1/pods": "/healthz;/api/v1/pods",
    "/apis//v1/pods": pods(),
}


def reviewed_as(spec: dict[str, Any]) -> dict[str, str] | str:
    """Return what a review was about: attributes of a resource, or a path."""
    attributes = spec.get("resourceAttributes")
    if attributes is None:
        path: str = spec["nonResourceAttributes"]["path"]
        return path
    return {name: attributes[name] for name in pods()}


async def test_06_what_is_reviewed_is_what_is_forwarded(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    reviewed, forwarded = {}, []
    for target in REVIEWED:
        before = len(api.reviewed_access)
        # Somebody else each time: what was allowed to the same user need not be reviewed again.
        wanted = [("Impersonate-User", f"bob-{before}")]
        answer = await client.request(target=target, headers=wanted)
        reviewed[target] = reviewed_as(api.reviewed_access[before])
        forwarded.append(json.loads(answer.body)["target"])

    assert forwarded == list(REVIEWED)
    assert reviewed == REVIEWED


AMBIGUOUS = [
    "https://elsewhere.example/api/v1/pods",
    "elsewhere.example:443",
    "*",
    "/api/v1/pods#/secrets",
    "/api/v1/pods/%zz",
    "/api/v1/pods/%00",
    "/api/v1/pods/%0d%0aX:y",
    "/api/v1/pods/%ff",
]


async def test_06_a_target_with_two_meanings_reaches_nobody(
    api: ScriptedApiServer, connect: Connect
) -> None:
    answers = {}
    for target in AMBIGUOUS:
        async with connect() as client:
            answer = await client.request("GET", target, headers=WANTS_BOB)
            answers[target] = status_of(answer)

    assert answers == dict.fromkeys(AMBIGUOUS, (400, "BadRequest", 400))
    assert api.requests == []
    assert api.reviewed_access == []


def hurried(settings: Settings) -> Settings:
    """Wait for a review no longer than a test may."""
    update = {"reviews": ReviewSettings.model_validate({"timeout": "1s"})}
    return settings.model_copy(
        update={"impersonation": settings.impersonation.model_copy(update=update)}
    )


async def is_asked_anew(api: ScriptedApiServer, client: HttpClient) -> bool:
    """Tell whether nothing of what was answered is remembered, neither as a yes nor as a no."""
    before = len(api.reviewed_access)
    api.review_status, api.access_status = "201 Created", {"allowed": True}
    api.review_gate.set()
    status = (await client.request(headers=WANTS_BOB)).status
    return status == 200 and len(api.reviewed_access) > before


@pytest.mark.parametrize(
    "failure",
    ["500 Internal Server Error", "429 Too Many Requests", "403 Forbidden", "401 Unauthorized"],
)
async def test_12_a_review_that_fails_is_no_permission(
    api: ScriptedApiServer, client: HttpClient, failure: str
) -> None:
    api.review_status = failure

    for _ in range(2):
        assert status_of(await client.request(headers=WANTS_BOB)) == UNAVAILABLE

    assert api.requests == []
    assert await is_asked_anew(api, client)


@pytest.mark.parametrize("status", [None, "allowed", ["allowed"], 1], ids=str)
async def test_12_what_is_no_answer_is_no_permission(
    api: ScriptedApiServer, client: HttpClient, status: object
) -> None:
    api.access_status = status

    for _ in range(2):
        assert status_of(await client.request(headers=WANTS_BOB)) == UNAVAILABLE

    assert api.requests == []
    assert await is_asked_anew(api, client)


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"allowed": None},
        {"allowed": "true"},
        {"allowed": 1},
        {"denied": False},
        {"allowed": True, "denied": True},
        {"allowed": False, "evaluationError": "allowed"},
    ],
    ids=str,
)
async def test_12_half_an_answer_is_a_denial(
    api: ScriptedApiServer, client: HttpClient, status: object
) -> None:
    api.access_status = status

    for _ in range(2):
        assert (await client.request(headers=WANTS_BOB)).status == 403

    assert api.requests == []
    assert await is_asked_anew(api, client)


@pytest.mark.parametrize("change", [hurried])
async def test_12_a_review_that_takes_too_long_is_no_permission(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    api.review_gate.clear()

    assert status_of(await client.request(headers=WANTS_BOB)) == UNAVAILABLE
    assert api.requests == []

    # On a busy machine an answer may come too late once more.
    async with asyncio.timeout(20):
        while not await is_asked_anew(api, client):  # noqa: ASYNC110 - only its answers tell
            await asyncio.sleep(0.05)


def groups(count: int) -> Headers:
    return [("Impersonate-Group", f"group-{number}") for number in range(count)]


async def test_13_a_flood_of_groups_is_refused_before_anybody_is_asked(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    answer = await client.request(headers=[*WANTS_BOB, *groups(1001)])

    assert status_of(answer) == (400, "BadRequest", 400)
    assert (api.requests, api.reviewed_access) == ([], [])


async def test_13_a_flood_of_headers_is_refused_before_it_is_read(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    answer = await client.request(headers=[*WANTS_BOB, *groups(5000)])

    assert answer.status == 431
    assert (api.requests, api.reviewed_access) == ([], [])


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "denied"])
async def test_13_a_thousand_groups_cost_few_reviews_and_little_time(
    api: ScriptedApiServer, client: HttpClient, *, allowed: bool
) -> None:
    api.access_status = {"allowed": allowed}
    started = time.monotonic()

    answer = await client.request(headers=[*WANTS_BOB, *groups(1000)])

    assert answer.status == (200 if allowed else 403)
    # One each for the action, the user, and all groups by a star; a denial ends at the first no,
    # and what was asked ahead of it is bounded.
    assert len(api.reviewed_access) <= (3 if allowed else 150)
    assert time.monotonic() - started < 20
