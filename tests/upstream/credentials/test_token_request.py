"""The forwarder's token: asked for, used as long as it is good, and never the reviewer's."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient

from proxy.kubeclient.kubeconfig import KubeconfigSource
from proxy.upstream.credentials.credentials import (
    CredentialsError,
    UpstreamCredentials,
    load_credentials,
)
from proxy.upstream.credentials.token_request import TokenRequestSource
from proxy.upstream.endpoints import EndpointSet
from proxy.upstream.identity.account import Clocks
from proxy.upstream.kube_client import open_client
from tests.support.certificates import Certificates, new_certificates
from tests.support.clock import FakeClock
from tests.support.scripted_api_server import OWN_TOKEN, ScriptedApiServer, scripted_api_server
from tests.upstream.kubeconfigs import load


class WallClock:
    """The time of day, which only moves when it is told to."""

    def __init__(self) -> None:
        self._offset = timedelta()
        self._passed = FakeClock()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._offset

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.step(seconds)
        self._passed.advance(seconds)

    def step(self, seconds: float) -> None:
        """Set the time of day; no time passes by that."""
        self._offset += timedelta(seconds=seconds)

    @property
    def clocks(self) -> Clocks:
        return Clocks(self._passed, self)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as server:
        yield server


@pytest.fixture
def kubeconfig(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> Path:
    return api.write_kubeconfig(tmp_path, certificates.write_server_ca(tmp_path))


@pytest.fixture
async def client(api: ScriptedApiServer, kubeconfig: Path) -> AsyncIterator[ApiClient]:
    credentials = await load(kubeconfig)
    endpoints = EndpointSet(credentials, asyncio.get_running_loop().time)
    async with open_client(
        endpoints, credentials.configuration, connect_timeout_seconds=5, when_rejected=lambda: None
    ) as client:
        yield client


def rewrite(kubeconfig: Path, old: str, new: str) -> None:
    kubeconfig.write_text(kubeconfig.read_text().replace(old, new))


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
async def credentials(kubeconfig: Path, client: ApiClient, clock: WallClock) -> UpstreamCredentials:
    source = KubeconfigSource(kubeconfig, clock)
    account = ("understudy", "forwarder")
    return await load_credentials(TokenRequestSource(source, account, client, clocks=clock.clocks))


async def test_the_token_is_used_until_a_fifth_of_its_life_is_left(
    api: ScriptedApiServer, credentials: UpstreamCredentials, clock: WallClock
) -> None:
    assert credentials.authorization == b"Bearer issued-1"
    assert credentials.expires_at == pytest.approx(clock().timestamp() + 3600, abs=60)

    clock.advance(2700)
    assert not await credentials.refresh()
    clock.advance(300)

    assert await credentials.refresh()
    assert credentials.authorization == b"Bearer issued-2"
    assert api.own_calls.issued == 2


async def test_what_the_api_server_grants_counts_not_what_was_asked_for(
    api: ScriptedApiServer, credentials: UpstreamCredentials, clock: WallClock
) -> None:
    api.own_calls.token_seconds = 600
    assert await credentials.refresh(renew=True)

    clock.advance(500)

    assert await credentials.refresh()
    assert credentials.authorization == b"Bearer issued-3"


async def test_a_token_that_is_not_issued_leaves_the_old_one(
    api: ScriptedApiServer, credentials: UpstreamCredentials, clock: WallClock
) -> None:
    api.own_calls.issues_tokens = False
    clock.advance(3000)

    with pytest.raises(CredentialsError, match="understudy:forwarder: no token was issued"):
        await credentials.refresh()

    assert (credentials.authorization, credentials.version) == (b"Bearer issued-1", 1)


async def test_a_first_token_may_come_later(
    api: ScriptedApiServer,
    kubeconfig: Path,
    client: ApiClient,
    clock: WallClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    api.own_calls.issues_tokens = False
    source = KubeconfigSource(kubeconfig, clock)
    credentials = await load_credentials(
        TokenRequestSource(source, ("a", "b"), client, clocks=clock.clocks)
    )
    assert credentials.authorization == b"Bearer not-issued-yet"
    assert "proxy token not issued" in caplog.text

    api.own_calls.issues_tokens = True

    assert await credentials.refresh()
    assert credentials.authorization == b"Bearer issued-1"


async def test_the_reviewers_certificate_does_not_speak_for_the_forwarder(
    kubeconfig: Path, client: ApiClient, clock: WallClock, certificates: Certificates
) -> None:
    """The API server would look at it first."""
    certificate, key = certificates.write_server_files(kubeconfig.parent)
    user = f'"client-certificate": "{certificate}", "client-key": "{key}"'
    rewrite(kubeconfig, f'"token": "{OWN_TOKEN}"', user)
    source = KubeconfigSource(kubeconfig, clock)
    assert (await load_credentials(source)).state.certificate is not None

    credentials = await load_credentials(
        TokenRequestSource(source, ("a", "b"), client, clocks=clock.clocks)
    )

    assert credentials.state.certificate is None
    assert credentials.authorization == b"Bearer issued-1"


async def test_another_server_is_followed(
    credentials: UpstreamCredentials, kubeconfig: Path
) -> None:
    rewrite(kubeconfig, "https://127.0.0.1:", "https://localhost:")

    assert await credentials.refresh()
    assert credentials.endpoints[0].host == "localhost"
    assert credentials.authorization == b"Bearer issued-1"


HOUR, DECADE = 3600.0, 10 * 365 * 86400.0


@pytest.mark.parametrize("step", [-DECADE, -HOUR, -1.0, 1.0, HOUR, DECADE], ids=str)
async def test_a_step_of_the_wall_clock_neither_keeps_nor_ends_a_token(
    api: ScriptedApiServer, credentials: UpstreamCredentials, clock: WallClock, step: float
) -> None:
    clock.step(step)

    assert not await credentials.refresh()
    clock.advance(0.8 * HOUR + 1)
    assert await credentials.refresh()

    assert api.own_calls.issued == 2


@pytest.mark.parametrize("skew", [-DECADE, -HOUR], ids=str)
async def test_a_clock_that_is_behind_does_not_keep_a_token_beyond_its_end(
    api: ScriptedApiServer, kubeconfig: Path, client: ApiClient, clock: WallClock, skew: float
) -> None:
    """By such a clock a token that lives for an hour lives for ten years."""
    clock.step(skew)
    source = KubeconfigSource(kubeconfig, clock)
    account = ("understudy", "forwarder")
    credentials = await load_credentials(
        TokenRequestSource(source, account, client, clocks=clock.clocks)
    )

    clock.advance(0.8 * HOUR + 1)

    assert await credentials.refresh()
    assert credentials.authorization == b"Bearer issued-2"


async def test_a_clock_that_is_ahead_renews_with_each_look_and_not_more_often(
    api: ScriptedApiServer, kubeconfig: Path, client: ApiClient, clock: WallClock
) -> None:
    clock.step(DECADE)
    source = KubeconfigSource(kubeconfig, clock)
    credentials = await load_credentials(
        TokenRequestSource(source, ("a", "b"), client, clocks=clock.clocks)
    )

    for _ in range(3):
        await credentials.refresh()

    assert api.own_calls.issued == 4
