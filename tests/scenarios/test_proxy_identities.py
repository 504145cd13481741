"""Who we are at the API server: two identities, and what we find out about them."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from tests.scenarios.conftest import status_of
from tests.scenarios.identity_environment import (
    REVIEWER_TOKEN,
    Context,
    Stage,
    ask,
    events,
    readiness,
)
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import connected
from tests.support.proxy_calls import Document, is_needed
from tests.support.scripted_api_server import OWN_NAME, OWN_TOKEN, REVIEWER_NAME, ScriptedApiServer


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
def stage(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> Stage:
    return Stage(api, certificates, tmp_path)


async def test_two_kubeconfigs_are_two_identities(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """That a review comes from the reviewer alone, the API server itself holds us to."""
    api = stage.api
    async with stage.running(stage.two_kubeconfigs()) as (proxy, admin):
        await ask(proxy, context_of)
        async with connected(proxy.address, context_of("mallory")) as client:
            refused = [
                (await client.request(headers=[("Impersonate-User", name)])).status
                for name in (OWN_NAME, REVIEWER_NAME)
            ]
        await eventually(lambda: len(events(caplog, "proxy permissions excessive")) == 2)
        status, page = await readiness(admin)

    assert refused == [403, 403]
    assert {one.values("authorization")[0] for one in api.requests} == {f"Bearer {OWN_TOKEN}"}
    assert (status, "[+]canary ok" in page) == (200, True)
    assert events(caplog, "reviewer and forwarder share one identity") == []
    # Both may do what only one of them needs to.
    excessive = {
        one["identity"]: one["rights"] for one in events(caplog, "proxy permissions excessive")
    }
    assert excessive["reviewer"] == [
        "impersonate users",
        "impersonate groups",
        "impersonate serviceaccounts",
    ]
    assert excessive["forwarder"] == [
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ]


async def test_one_identity_for_everything_is_reported(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.running({}) as (proxy, _):
        await ask(proxy, context_of)
        await eventually(lambda: events(caplog, "proxy permissions verified"))

    (told,) = events(caplog, "reviewer and forwarder share one identity")
    assert told["user"] == OWN_NAME


async def test_rights_that_are_missing_or_dangerous_are_reported_and_counted(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def grants(asked: Document) -> bool:
        if asked["resource"] == "secrets":
            return True
        return is_needed(asked) and asked.get("subresource") is None and asked["resource"] != "uids"

    stage.api.own_calls.grants = grants
    stage.api.own_groups = ["system:masters"]
    async with stage.running({"originalUserExtra": True}) as (proxy, _):
        await eventually(lambda: events(caplog, "proxy permissions excessive"))
        registry = proxy.registry

        def count(finding: str) -> float | None:
            labels = {"identity": "shared", "finding": finding}
            return registry.get_sample_value("understudy_proxy_permissions", labels)

        counts = (count("missing"), count("excessive"))

    (missing,), (excessive,) = (
        events(caplog, f"proxy permissions {finding}") for finding in ("missing", "excessive")
    )
    extras = [
        *(f"authentication.kubernetes.io/{name}" for name in ("credential-id", "node-name")),
        *(f"authentication.kubernetes.io/{name}" for name in ("node-uid", "pod-name", "pod-uid")),
        *(f"original-user.kube-understudy.io/{name}" for name in ("name", "uid", "groups")),
    ]
    assert missing["rights"] == [
        "impersonate uids.authentication.k8s.io",
        *(f"impersonate userextras.authentication.k8s.io/{key}" for key in extras),
    ]
    assert excessive["rights"] == ["member of system:masters", "get secrets", "list secrets"]
    assert counts == (9, 3)


@pytest.mark.parametrize("answer", [{"allowed": True}, {}, {"allowed": "false"}, None], ids=str)
async def test_who_allows_everybody_everything_makes_us_not_ready(
    stage: Stage, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    stage.api.own_calls.canary_status = answer
    async with stage.running({}) as (_, admin):
        await eventually(lambda: stage.api.own_calls.canaries)
        await eventually(lambda: "canary" in caplog.text)
        status, page = await readiness(admin)

    assert status == 503
    if answer == {"allowed": True}:
        fault = (
            "the authorizer allows an unknown user an unknown verb, "
            "so its answers cannot be trusted"
        )
        assert f"[-]canary failed: {fault}\n" in page
    else:
        assert "[-]canary failed: " in page
    (asked, *_) = stage.api.own_calls.canaries
    assert asked["user"].startswith("understudy-canary-")
    assert asked["resourceAttributes"]["verb"] == "impersonate-on:understudy-canary:get"


async def test_the_canary_is_asked_again_until_it_is_denied(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.upstream.identity.monitor._UNSETTLED_SECONDS", 0.05)
    stage.api.own_calls.canary_status = {"allowed": True}
    async with stage.running({}) as (_, admin):
        await eventually(lambda: len(stage.api.own_calls.canaries) > 2)
        assert (await readiness(admin))[0] == 503

        stage.api.own_calls.canary_status = {"allowed": False}
        async with asyncio.timeout(20):
            while (await readiness(admin))[0] != 200:  # noqa: ASYNC110 - only its answers tell
                await asyncio.sleep(0.01)

    names = [asked["user"] for asked in stage.api.own_calls.canaries]
    assert len(set(names)) == len(names)  # no cache can answer


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        ({"major": "1", "minor": "21+"}, False),
        ({"major": "1", "minor": "9"}, False),
        ({"major": "1", "minor": "22"}, True),
        ({"major": "1", "minor": "37+"}, True),
        ({"major": "2", "minor": "0"}, True),
        ({}, False),
        ({"major": "new", "minor": ""}, False),
    ],
    ids=str,
)
async def test_a_uid_is_refused_where_it_would_be_lost(
    stage: Stage, context_of: Context, version: Document, *, taken: bool
) -> None:
    stage.api.own_calls.version = version
    as_bob = ("Impersonate-User", "bob")
    async with stage.running({}) as (proxy, _):
        await ask(proxy, context_of)
        stage.api.requests.clear()
        async with connected(proxy.address, context_of("alice")) as client:
            answer = await client.request(headers=[as_bob, ("Impersonate-Uid", "7")])
            without = await client.request(headers=[as_bob])

    assert without.status == 200
    if taken:
        assert answer.status == 200
        assert stage.api.requests[0].values("impersonate-uid") == ["7"]
    else:
        assert status_of(answer) == (403, "Forbidden", 403)
        assert "older than 1.22" in json.loads(answer.body)["message"]
        assert len(stage.api.requests) == 1


async def test_a_caller_with_a_uid_of_its_own_is_refused_before_an_old_server(
    stage: Stage, context_of: Context
) -> None:
    """It would be forwarded without its uid, so as another user. Its sibling has none."""
    stage.api.own_calls.version = {"major": "1", "minor": "21"}
    stage.api.token_statuses["with"] = _reviewed({"username": "bob", "uid": "7"})
    stage.api.token_statuses["without"] = _reviewed({"username": "bob"})
    async with stage.running({}) as (proxy, _):
        await ask(proxy, context_of)
        stage.api.requests.clear()
        async with connected(proxy.address, context_of(None)) as client:
            with_uid = await client.request(headers=[("Authorization", "Bearer with")])
            as_carol = [("Impersonate-User", "carol"), ("Authorization", "Bearer with")]
            impersonating = await client.request(headers=as_carol)
            without_uid = await client.request(headers=[("Authorization", "Bearer without")])

    assert status_of(with_uid) == (403, "Forbidden", 403)
    # The uid of a caller is not part of whom it acts as.
    assert (impersonating.status, without_uid.status) == (200, 200)
    assert [one.user for one in stage.api.requests] == ["carol", "bob"]
    assert all(one.values("impersonate-uid") == [] for one in stage.api.requests)


def _reviewed(user: Document) -> dict[str, object]:
    return {"authenticated": True, "user": user}


async def test_before_1_28_our_own_tokens_are_reviewed_to_know_who_we_are(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    api = stage.api
    api.has_self_reviews = False
    api.tokens |= {OWN_TOKEN: OWN_NAME, REVIEWER_TOKEN: REVIEWER_NAME}
    async with stage.running(stage.two_kubeconfigs()) as (proxy, _):
        await ask(proxy, context_of)
        async with connected(proxy.address, context_of("mallory")) as client:
            refused = await client.request(headers=[("Impersonate-User", REVIEWER_NAME)])

    assert refused.status == 403
    names = {one["identity"]: one["user"] for one in events(caplog, "proxy identity resolved")}
    assert names == {"reviewer": REVIEWER_NAME, "forwarder": OWN_NAME}
    assert OWN_TOKEN not in caplog.text
