"""A hop before a scripted server, and an application that trusts the CA it was given."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from proxy.core.userinfo import UserInfo
from proxy.sidecar.service_account_dir import ServiceAccountDir
from proxy.sidecar.sidecar import Sidecar, SidecarOptions, run_sidecar
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import BOTH_LOOPS
from tests.support.http_client import Headers, HttpClient, Response, connected
from tests.support.scripted_api_server import ScriptedApiServer, scripted_api_server

APPLICATION = "Bearer the-token-of-the-application"
NODE = UserInfo("system:node:node-1")
AUTHORIZED: Headers = [("Authorization", APPLICATION)]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return BOTH_LOOPS


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    """Whoever is next; nothing may ever reach it but one identity and the application's token."""
    async with scripted_api_server(certificates) as server:
        server.own_tokens = {APPLICATION.removeprefix("Bearer ")}
        yield server
        assert server.violations == []


@pytest.fixture
def settings(api: ScriptedApiServer, certificates: Certificates, tmp_path: Path) -> SidecarOptions:
    return SidecarOptions(
        NODE,
        api.address,
        ("127.0.0.1", 0),
        ca_file=certificates.write_server_ca(tmp_path),
        service_account_dir=ServiceAccountDir(ca_files=(tmp_path / "hop.crt",)),
    )


@pytest.fixture
async def sidecar(settings: SidecarOptions) -> AsyncIterator[Sidecar]:
    async with run_sidecar(settings) as running:
        yield running


@pytest.fixture
async def application(sidecar: Sidecar, tmp_path: Path) -> AsyncIterator[HttpClient]:
    """A client that trusts nothing but what the hop wrote for it."""
    async with connected(sidecar.address, trusting(tmp_path / "hop.crt")) as client:
        yield client


def trusting(ca_file: Path) -> ssl.SSLContext:
    """Return the context of a client that trusts this CA alone, and checks names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca_file)
    return context


def refusal_of(answer: Response) -> tuple[int, str, str]:
    """Return code, reason and message of a Status."""
    status = json.loads(answer.body)
    assert (status["kind"], status["code"]) == ("Status", answer.status)
    return answer.status, status["reason"], status["message"]
