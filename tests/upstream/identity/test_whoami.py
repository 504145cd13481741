"""Who we are, and what the API server is: told, told otherwise, or not at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient

from proxy.core.errors import UpstreamUnavailable
from proxy.sandbox.identities import CertificateAuthority
from proxy.upstream.credentials.credentials import CredentialState
from proxy.upstream.endpoints import EndpointSet
from proxy.upstream.identity.whoami import ProxyUser, supports_impersonate_uid, whoami
from proxy.upstream.kube_client import open_client
from tests.support.certificates import Certificates, new_certificates
from tests.support.scripted_api_server import (
    OWN_NAME,
    OWN_TOKEN,
    ScriptedApiServer,
    scripted_api_server,
)
from tests.upstream.kubeconfigs import load


def shown(token: str | None = OWN_TOKEN, certificate: bytes | None = None) -> CredentialState:
    """Return a credential of ours."""
    authorization = f"Bearer {token}".encode() if token else None
    return CredentialState(authorization, (), b"", certificate, expires_at=0)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    async with scripted_api_server(certificates) as server:
        yield server


@pytest.fixture
async def client(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[ApiClient]:
    kubeconfig = api.write_kubeconfig(tmp_path, certificates.write_server_ca(tmp_path))
    credentials = await load(kubeconfig)
    endpoints = EndpointSet(credentials, asyncio.get_running_loop().time)
    async with open_client(
        endpoints, credentials.configuration, connect_timeout_seconds=5, when_rejected=lambda: None
    ) as client:
        yield client


async def test_the_api_server_tells_name_and_groups(
    api: ScriptedApiServer, client: ApiClient
) -> None:
    api.own_groups = ["a", "b"]

    assert await whoami(client, shown(), client) == ProxyUser(OWN_NAME, frozenset({"a", "b"}))


async def test_without_that_question_our_token_is_reviewed(
    api: ScriptedApiServer, client: ApiClient
) -> None:
    api.has_self_reviews = False
    api.tokens[OWN_TOKEN] = OWN_NAME

    assert await whoami(client, shown(), client) == ProxyUser(OWN_NAME)
    assert api.reviewed_tokens == [OWN_TOKEN]


async def test_a_token_that_is_not_accepted_is_nobodys(
    api: ScriptedApiServer, client: ApiClient
) -> None:
    api.has_self_reviews = False
    user = {"username": "root"}
    api.token_statuses[OWN_TOKEN] = {"authenticated": False, "user": user}

    with pytest.raises(UpstreamUnavailable):
        await whoami(client, shown(), client)


async def test_without_that_question_our_certificate_is_read(
    api: ScriptedApiServer, client: ApiClient
) -> None:
    api.has_self_reviews = False
    pair = CertificateAuthority("us").issue_client("us", groups=("a", "system:masters"))
    user = await whoami(client, shown(None, pair.certificate_pem), client)

    assert user == ProxyUser("us", frozenset({"a", "system:masters"}))
    with pytest.raises(UpstreamUnavailable):
        await whoami(client, shown(None), client)


@pytest.mark.parametrize("name", ["", 7, None])
async def test_a_name_that_is_none_is_not_ours(
    api: ScriptedApiServer, client: ApiClient, name: str
) -> None:
    api.own_name = name

    with pytest.raises(UpstreamUnavailable):
        await whoami(client, shown(), client)


async def test_a_version_that_is_kept_secret_takes_no_uids_and_one_out_of_reach_is_asked_again(
    api: ScriptedApiServer, client: ApiClient
) -> None:
    assert await supports_impersonate_uid(client)

    api.own_calls.version_status = "403 Forbidden"
    assert not await supports_impersonate_uid(client)

    for status in ("500 Internal Server Error", "429 Too Many Requests", "401 Unauthorized"):
        api.own_calls.version_status = status
        with pytest.raises(UpstreamUnavailable):
            await supports_impersonate_uid(client)
