"""A CA that is taken away: its certificates are refused from then on, by every way in."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy.core.errors import OperatorError
from proxy.runtime.proxy import Proxy, run_proxy
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_for, wait_until_it_admits
from tests.support.certificates import Certificates, new_certificates
from tests.support.http_client import Cut, HttpClient, connected, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
TOKEN = [("Authorization", "Bearer bobs-token")]


@pytest.fixture
def settings(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> Settings:
    """Files that are looked at only when it is asked for."""
    return settings_for(api, certificates, tmp_path, serving={"certificateRefresh": "1h"})


@pytest.fixture
async def running(
    settings: Settings, context_of: Callable[[str | None], ssl.SSLContext]
) -> AsyncIterator[Proxy]:
    async with run_proxy(settings) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        yield proxy


def write_ca(settings: Settings, content: bytes) -> None:
    file = settings.authentication.client_certificate.ca_file
    assert file is not None
    file.write_bytes(content)


async def take_ca_away(proxy: Proxy, settings: Settings) -> Certificates:
    """Put another CA in the place of the one that was, and return it."""
    other = new_certificates()
    write_ca(settings, other.clients.cert_pem.bytes())
    await reloaded(proxy, settings)
    return other


async def reloaded(proxy: Proxy, settings: Settings) -> None:
    before = proxy._trust.trust
    await proxy.reload(settings)
    assert proxy._trust.trust is not before


def context_for(certificates: Certificates, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = certificates.client_context("alice")
    context.minimum_version = context.maximum_version = version
    return context


@asynccontextmanager
async def resuming(
    address: tuple[str, int], context: ssl.SSLContext, session: ssl.SSLSession | None
) -> AsyncIterator[HttpClient]:
    async with connected(address) as client:
        await client.shake_hands(context, session)
        yield client


async def status_after(
    address: tuple[str, int], context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> int:
    """Return the status a new connection is told, or 0 when it is told nothing at all."""
    try:
        async with resuming(address, context, session) as client:
            return (await client.request()).status
    except (ConnectionError, Cut, ssl.SSLError):
        return 0


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
async def test_after_its_ca_is_gone_a_certificate_is_refused_also_with_an_old_session(
    running: Proxy, settings: Settings, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    context = context_for(certificates, version)
    async with connected(running.address, context) as client:
        assert (await client.request()).status == 200
        session = client.tls.session
        assert session is not None

        other = await take_ca_away(running, settings)

        assert (await client.request()).status == 401
        assert (await client.request()).status == 401, "and the connection stays, as natively"
    assert await status_after(running.address, context) == 401
    assert await status_after(running.address, context, session) == 401
    assert await status_after(running.address, of_new_ca(certificates, other, version)) == 200


def of_new_ca(old: Certificates, new: Certificates, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A client whose certificate is of the new CA, of a server that has stayed the same."""
    return context_for(Certificates(old.servers, new.clients), version)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
async def test_even_before_that_an_old_session_proves_nothing(
    running: Proxy, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    """Either it is not resumed, and the certificate is shown again, or nobody is known by it."""
    context = context_for(certificates, version)
    async with connected(running.address, context) as client:
        assert (await client.request()).status == 200
        session = client.tls.session

    async with resuming(running.address, context, session) as client:
        answer = await client.request()
        assert (answer.status, client.tls.session_reused) in {(200, False), (401, True)}


async def test_who_came_with_a_token_is_not_disturbed(
    running: Proxy, settings: Settings, api: ScriptedApiServer, certificates: Certificates
) -> None:
    api.tokens["bobs-token"] = "bob"
    async with connected(running.address, certificates.client_context()) as client:
        assert (await client.request(headers=TOKEN)).status == 200

        await take_ca_away(running, settings)

        assert (await client.request(headers=TOKEN)).status == 200


async def test_who_has_a_token_beside_a_certificate_goes_on_by_the_token(
    running: Proxy, settings: Settings, api: ScriptedApiServer, certificates: Certificates
) -> None:
    api.tokens["bobs-token"] = "bob"
    async with connected(running.address, certificates.client_context("alice")) as client:
        assert (await client.request(headers=TOKEN)).status == 200
        await take_ca_away(running, settings)
        assert (await client.request(headers=TOKEN)).status == 200

    users = [request.values("Impersonate-User") for request in api.requests]
    assert [user for user in users if user][-2:] == [["alice"], ["bob"]]


async def test_a_watch_goes_on_to_its_end_and_what_follows_is_refused(
    running: Proxy, settings: Settings, api: ScriptedApiServer, certificates: Certificates
) -> None:
    """As at the API server, which looks at the certificate when a request comes."""
    go_on = asyncio.Event()

    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await connection.send(b"4\r\none\n\r\n")
        await go_on.wait()
        await connection.send(b"4\r\ntwo\n\r\n0\r\n\r\n")

    api.script = watch
    async with connected(running.address, certificates.client_context("alice")) as client:
        await client.send(request_bytes(target="/api/v1/pods?watch=1"))
        assert (await client.read_head()).status == 200
        assert await client.read_until(b"one\n")
        await client.send(request_bytes("DELETE", "/api/v1/namespaces/a/pods/b"))

        await take_ca_away(running, settings)
        go_on.set()

        assert await client.read_until(b"two\n\r\n0\r\n\r\n")
        assert (await client.read_response()).status == 401
    assert "DELETE" not in [request.method for request in api.requests]


async def test_a_bundle_that_only_grew_disturbs_nobody(
    running: Proxy, settings: Settings, certificates: Certificates
) -> None:
    other = new_certificates()
    both = certificates.clients.cert_pem.bytes() + other.clients.cert_pem.bytes()
    async with connected(running.address, certificates.client_context("alice")) as client:
        assert (await client.request()).status == 200
        write_ca(settings, both)
        await reloaded(running, settings)

        assert (await client.request()).status == 200
    newcomer = of_new_ca(certificates, other, ssl.TLSVersion.TLSv1_3)
    assert await status_after(running.address, newcomer) == 200


async def test_a_broken_bundle_leaves_everything_as_it_was(
    running: Proxy,
    settings: Settings,
    certificates: Certificates,
) -> None:
    context = certificates.client_context("alice")
    async with connected(running.address, context) as client:
        write_ca(settings, b"-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n")
        with pytest.raises(OperatorError, match="clientCertificate"):
            await running.reload(settings)

        assert (await client.request()).status == 200
    assert await status_after(running.address, context) == 200


async def test_without_being_asked_the_files_are_looked_at(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> None:
    settings = settings_for(api, certificates, tmp_path, serving={"certificateRefresh": "50ms"})
    async with run_proxy(settings) as proxy:
        context = certificates.client_context("alice")
        async with connected(proxy.address, context) as client:
            before = client.tls.getpeercert(binary_form=True)
            certificates.write_server_files(tmp_path)
            write_ca(settings, new_certificates().clients.cert_pem.bytes())

            statuses = [(await client.request()).status]
            for _ in range(500):
                if statuses[-1] == 401 and await certificate_of(proxy, certificates) != before:
                    break
                await asyncio.sleep(0.02)
                statuses.append((await client.request()).status)
            else:
                pytest.fail("the files were not looked at")
    assert set(statuses) <= {200, 401}


async def certificate_of(proxy: Proxy, certificates: Certificates) -> bytes | None:
    async with connected(proxy.address, certificates.client_context()) as client:
        return client.tls.getpeercert(binary_form=True)
