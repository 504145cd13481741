"""40 to 43: what reaches the admin port, or opens many connections, costs nobody else anything."""

import asyncio
import contextlib
import resource
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from proxy.runtime.proxy import Proxy, run_proxy
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.scripted_api_server import ScriptedApiServer

PLACES = 8
HALF_A_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture
async def admin_port(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy with few places at its admin port, and more clients than there can be files."""
    certificate, key = certificates.write_server_files(tmp_path)
    with ReservedPort() as port:
        document = settings_document(
            api, certificates, tmp_path, serving={"limits": {"connections": 10**8}}
        )
        document["admin"] = {
            "address": f"{LOOPBACK}:{port.number}",
            "certificateFile": str(certificate),
            "keyFile": str(key),
            "metricsRequireAuthorization": True,
            "limits": {"connections": PLACES},
        }
        async with run_proxy(Settings.model_validate(document)) as proxy:
            yield proxy, port.number


@pytest.fixture
def strangers_context(certificates: Certificates) -> ssl.SSLContext:
    return certificates.client_context(None)


async def scrape(port: int, token: str, context: ssl.SSLContext) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    url = f"https://{LOOPBACK}:{port}/metrics"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=context) as answer,
    ):
        await answer.read()
        return answer.status


async def test_40_half_open_requests_are_held_to_few_places(
    admin_port: tuple[Proxy, int], strangers_context: ssl.SSLContext
) -> None:
    _, port = admin_port
    async with contextlib.AsyncExitStack() as stack:
        readers = []
        for _ in range(3 * PLACES):
            reader, writer = await asyncio.open_connection(
                LOOPBACK, port, ssl=strangers_context, server_hostname=LOOPBACK
            )
            stack.callback(writer.close)
            writer.write(HALF_A_REQUEST)
            readers.append(reader)

        with contextlib.suppress(TimeoutError):
            await eventually(lambda: closed(readers) == 2 * PLACES, seconds=3)
        assert closed(readers) == 2 * PLACES


def closed(readers: list[asyncio.StreamReader]) -> int:
    return sum(reader.at_eof() or reader.exception() is not None for reader in readers)


async def test_41_a_scraper_in_a_loop_gets_a_page_a_second(
    admin_port: tuple[Proxy, int], api: ScriptedApiServer, strangers_context: ssl.SSLContext
) -> None:
    _, port = admin_port
    api.tokens["good"] = "scraper"
    await scrape(port, "good", strangers_context)

    began = time.monotonic()
    for _ in range(2):
        assert await scrape(port, "good", strangers_context) == 200

    assert time.monotonic() - began > 1


async def test_42_bad_tokens_of_scrapers_are_rationed(
    admin_port: tuple[Proxy, int], api: ScriptedApiServer, strangers_context: ssl.SSLContext
) -> None:
    _, port = admin_port

    statuses = [await scrape(port, f"bad-{number}", strangers_context) for number in range(90)]

    assert set(statuses) == {401, 429}
    assert len(api.reviewed_tokens) < 80


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] == resource.RLIM_INFINITY,
    reason="here no number is too high",
)
async def test_43_no_more_clients_are_accepted_than_files_suffice_for(
    admin_port: tuple[Proxy, int],
) -> None:
    proxy, _ = admin_port

    limit = proxy.registry.get_sample_value("understudy_client_connections_limit")

    assert limit is not None
    assert 1 <= limit < resource.getrlimit(resource.RLIMIT_NOFILE)[0] / 2
