"""The forwarder by a token that the reviewer asks for: issued, renewed, refused, not issued."""

import asyncio
import logging
from pathlib import Path

import pytest

from proxy.core.errors import OperatorError
from tests.scenarios.conftest import Section, status_of
from tests.scenarios.identity_environment import (
    FORWARDER,
    REVIEWER_TOKEN,
    Context,
    Stage,
    ask,
    events,
    readiness,
    shown,
)
from tests.support.certificates import Certificates
from tests.support.http_client import connected
from tests.support.scripted_api_server import ScriptedApiServer


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
def stage(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> Stage:
    return Stage(api, certificates, tmp_path)


async def test_a_token_of_the_forwarder_is_asked_for_and_renewed(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """Tokens are good for five seconds here, so each is replaced after four."""
    api = stage.api
    api.own_calls.token_seconds = 5
    async with stage.running(stage.requested_token()) as (proxy, _):
        await ask(proxy, context_of)
        assert shown(api.requests) == {"Bearer issued-1"}
        async with connected(proxy.address, context_of("alice")) as client:
            statuses = []
            async with asyncio.timeout(20):
                while "Bearer issued-2" not in shown(api.requests[-1:]):
                    statuses.append((await client.request()).status)
        registry = proxy.registry
        expiry = registry.get_sample_value(
            "understudy_proxy_credential_expiry_seconds", {"identity": "forwarder"}
        )

    assert set(statuses) == {200}
    assert api.refused == []
    assert expiry
    assert expiry > 0
    assert REVIEWER_TOKEN not in caplog.text
    assert "issued-1" not in caplog.text


@pytest.fixture
def pod(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a pod that runs as the reviewer."""
    api, pod = stage.api, tmp_path / "serviceaccount"
    api.reviewer_tokens.add(REVIEWER_TOKEN)
    api.own_tokens.clear()
    stage.write_pod(pod)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", api.address[0])
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.address[1]))
    library = "kubernetes_asyncio.config.incluster_config."
    monkeypatch.setattr(library + "SERVICE_TOKEN_FILENAME", str(pod / "token"))
    monkeypatch.setattr(library + "SERVICE_CERT_FILENAME", str(pod / "server-ca.crt"))

    return pod


@pytest.mark.parametrize(
    ("forwarder", "account"),
    [({}, "understudy-forwarder"), (FORWARDER, "proxy")],
    ids=["by default", "as told"],
)
async def test_a_pod_that_runs_as_the_reviewer_forwards_by_such_a_token(
    stage: Stage, context_of: Context, pod: Path, forwarder: Section, account: str
) -> None:
    api = stage.api
    async with stage.running({"kubeconfig": None, "forwarder": forwarder}) as (proxy, _):
        await ask(proxy, context_of)

    assert shown(api.requests) == {"Bearer issued-1"}
    assert shown(api.reviews) == {f"Bearer {REVIEWER_TOKEN}", "Bearer issued-1"}
    path = f"/api/v1/namespaces/understudy/serviceaccounts/{account}/token"
    assert api.own_calls.token_requests == [path]


async def test_a_pod_may_be_one_identity_for_everything(
    stage: Stage, context_of: Context, pod: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage.api.own_tokens.add(REVIEWER_TOKEN)
    shared = {"kubeconfig": None, "forwarder": {"sameAsReviewer": True}}
    async with stage.running(shared) as (proxy, _):
        await ask(proxy, context_of)

    assert shown(stage.api.requests) == {f"Bearer {REVIEWER_TOKEN}"}
    assert events(caplog, "reviewer and forwarder share one identity")


async def test_a_pod_without_a_namespace_does_not_start(stage: Stage, pod: Path) -> None:
    (pod / "namespace").unlink()

    with pytest.raises(OperatorError, match="cannot read the pod's namespace"):
        async with stage.running({"kubeconfig": None}):
            pass


async def test_a_token_that_is_refused_is_replaced_at_once(
    stage: Stage, context_of: Context
) -> None:
    api = stage.api
    async with stage.running(stage.requested_token()) as (proxy, _):
        await ask(proxy, context_of)

        api.withdraw("issued-1")
        async with connected(proxy.address, context_of("alice")) as client:
            statuses = [(await client.request()).status]
            async with asyncio.timeout(20):
                while statuses[-1] != 200:
                    statuses.append((await client.request()).status)

    assert set(statuses) == {503, 200}
    assert shown(api.requests[-1:]) == {"Bearer issued-2"}


async def test_without_a_token_nobody_is_served_until_one_is_issued(
    stage: Stage, context_of: Context, caplog: pytest.LogCaptureFixture
) -> None:
    api = stage.api
    api.own_calls.issues_tokens = False
    api.withdrawn.add("not-issued-yet")  # known as ours, accepted by nobody
    async with stage.running(stage.requested_token()) as (proxy, admin):
        async with connected(proxy.address, context_of("alice")) as client:
            refused = await client.request()
        status, _ = await readiness(admin)

        api.own_calls.issues_tokens = True
        await ask(proxy, context_of)

    assert status_of(refused) == (503, "ServiceUnavailable", 503)
    assert status == 503
    (told, *_) = events(caplog, "proxy token not issued")
    assert told["account"] == "understudy:proxy"
    assert shown(api.requests) == {"Bearer issued-1"}
