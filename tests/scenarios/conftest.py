"""The whole proxy in front of a scripted API server, on both event loops."""

import asyncio
import functools
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from proxy.runtime.proxy import run_proxy
from proxy.settings.model import Settings
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import BOTH_LOOPS, PRODUCTION_LOOP
from tests.support.http_client import HttpClient, Response, connected
from tests.support.scripted_api_server import ScriptedApiServer, scripted_api_server
from tests.support.sizes import IS_SOAKING

Connect = Callable[..., AbstractAsyncContextManager[HttpClient]]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A whole proxy runs on uvloop alone; the parts that depend on a loop are tested on both."""
    return BOTH_LOOPS if IS_SOAKING else PRODUCTION_LOOP


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture(scope="session")
def context_of(certificates: Certificates) -> Callable[[str | None], ssl.SSLContext]:
    """The context of a user with a certificate, or of nobody; each made once."""
    return functools.cache(certificates.client_context)


@pytest.fixture
async def api(certificates: Certificates) -> AsyncIterator[ScriptedApiServer]:
    """The API server; no request may ever have reached it without its one identity."""
    async with scripted_api_server(certificates) as server:
        yield server
        assert server.violations == []


Section = Mapping[str, object]
NOTHING: Section = {}


@pytest.fixture
def upstream_settings() -> Section:
    """What a test module wants to be different upstream."""
    return NOTHING


@pytest.fixture
def impersonation_settings() -> Section:
    """What a test module wants to be decided differently."""
    return NOTHING


@pytest.fixture
def serving_settings() -> Section:
    """What a test module wants to be different for clients."""
    return NOTHING


@pytest.fixture
def sections(
    upstream_settings: Section, impersonation_settings: Section, serving_settings: Section
) -> dict[str, Section]:
    """All that is different from the default."""
    return {
        "upstream": upstream_settings,
        "impersonation": impersonation_settings,
        "serving": serving_settings,
    }


@pytest.fixture
async def proxy(
    api: ScriptedApiServer,
    certificates: Certificates,
    tmp_path: Path,
    context_of: Callable[[str | None], ssl.SSLContext],
    sections: dict[str, Section],
) -> AsyncIterator[tuple[str, int]]:
    """The address of a running proxy that knows who it is."""
    settings = settings_for(api, certificates, tmp_path, **sections)
    async with run_proxy(settings) as proxy:
        await wait_until_it_admits(proxy.address, context_of("early"))
        api.requests.clear()
        yield proxy.address


def settings_for(
    api: ScriptedApiServer, certificates: Certificates, directory: Path, **sections: Section
) -> Settings:
    """Write the files of a proxy before this API server, and return its settings."""
    return Settings.model_validate(settings_document(api, certificates, directory, **sections))


def settings_document(
    api: ScriptedApiServer,
    certificates: Certificates,
    directory: Path,
    *,
    upstream: Section = NOTHING,
    impersonation: Section = NOTHING,
    serving: Section = NOTHING,
) -> dict[str, Any]:
    """Write the files of a proxy before this API server, and return what its config file says."""
    certificate, key = certificates.write_server_files(directory)
    kubeconfig = api.write_kubeconfig(directory, certificates.write_server_ca(directory))
    client_ca = certificates.write_client_ca(directory)
    return {
        "apiVersion": "kube-understudy.io/v1alpha1",
        "kind": "ProxyConfiguration",
        "serving": {
            "address": "127.0.0.1:0",
            "certificateFile": str(certificate),
            "keyFile": str(key),
            **serving,
        },
        "authentication": {"clientCertificate": {"caFile": str(client_ca)}},
        "upstream": {"kubeconfig": str(kubeconfig), **upstream},
        "impersonation": dict(impersonation),
    }


async def wait_until_it_admits(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """The proxy admits nobody before it knows its own name."""
    async with connected(address, context) as client:
        while (await client.request()).status != 200:  # noqa: ASYNC110 - only its answers tell
            await asyncio.sleep(0.01)


@pytest.fixture
def connect(proxy: tuple[str, int], context_of: Callable[[str | None], ssl.SSLContext]) -> Connect:
    """Connect to the proxy as a user with a certificate, or as nobody."""

    def connect_as(user: str | None = "alice") -> AbstractAsyncContextManager[HttpClient]:
        return connected(proxy, context_of(user))

    return connect_as


@pytest.fixture
async def client(connect: Connect) -> AsyncIterator[HttpClient]:
    """A connection of alice, who has a certificate."""
    async with connect() as client:
        yield client


def status_of(answer: Response) -> tuple[int, str, int]:
    """Return the code of the answer, and reason and code of its Status."""
    status = json.loads(answer.body)
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert answer.values("content-type") == ["application/json"]
    assert len(answer.values("audit-id")) == 1
    return answer.status, status["reason"], status["code"]
