"""Our own calls take nothing from the environment and keep nothing of an answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.upstream.endpoints import EndpointSet
from proxy.upstream.identity.whoami import ProxyUser, whoami
from proxy.upstream.kube_client import open_client
from tests.support.certificates import Certificates, new_certificates
from tests.support.scripted_api_server import (
    OWN_NAME,
    OWN_TOKEN,
    ScriptedApiServer,
    scripted_api_server,
)
from tests.upstream.kubeconfigs import load


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as server:
        yield server


def refused() -> None:
    pytest.fail("our credential was refused")


async def ask_twice(api: ScriptedApiServer, certificates: Certificates, directory: Path) -> None:
    kubeconfig = api.write_kubeconfig(directory, certificates.write_server_ca(directory))
    credentials = await load(kubeconfig)
    endpoints = EndpointSet(credentials, asyncio.get_running_loop().time)
    async with open_client(
        endpoints, credentials.configuration, connect_timeout_seconds=5, when_rejected=refused
    ) as client:
        for _ in range(2):
            assert await whoami(client, credentials.state, client) == ProxyUser(OWN_NAME)


async def test_a_proxy_named_by_the_environment_is_not_used(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password canary\n")
    monkeypatch.setenv("NETRC", str(netrc))

    await ask_twice(api, certificates, tmp_path)

    shown = [request.values("authorization") for request in api.seen_reviews]
    assert shown == [[f"Bearer {OWN_TOKEN}"]] * 2


async def test_a_cookie_is_not_kept(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    api.review_headers = ("Set-Cookie: session=eve; Path=/",)

    await ask_twice(api, certificates, tmp_path)

    assert [request.values("cookie") for request in api.seen_reviews] == [[], []]
