"""How long the API server may take, and what the client is told when it takes longer."""

import asyncio
from pathlib import Path

import pytest

from proxy.runtime.proxy import run_proxy
from tests.scenarios.conftest import settings_for, status_of
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes
from tests.support.scripted_api_server import (
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)


@pytest.fixture
def upstream_settings() -> dict[str, str]:
    return {"connectTimeout": "200ms", "responseTimeout": "200ms"}


async def stay_silent(connection: ScriptedConnection, request: SeenRequest) -> None:
    await connection.reader.read()


@pytest.mark.parametrize("body", [b"", b"hello"], ids=["GET", "POST"])
async def test_no_answer_in_time_is_a_504_sent_once(
    api: ScriptedApiServer, client: HttpClient, body: bytes
) -> None:
    api.script = stay_silent

    answer = await client.request("POST" if body else "GET", body=body)

    assert status_of(answer) == (504, "Timeout", 504)
    assert answer.values("retry-after") == []
    assert len(api.requests) == 1
    await eventually(lambda: api.open_forwarding == 0)
    api.script = echo
    assert (await client.request()).status == 200


async def test_a_body_that_never_ends_is_a_504(api: ScriptedApiServer, client: HttpClient) -> None:
    await client.send(request_bytes("PUT", headers=[("Content-Length", "10")]) + b"half")

    answer = await client.read_response()

    assert status_of(answer)[0] == 504
    assert answer.values("connection") == ["close"]
    assert await client.read_to_end() == b""


async def test_only_the_head_has_to_come_in_time(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    async def slow_body(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        await asyncio.sleep(0.3)
        await connection.send(b"late")

    api.script = slow_body

    assert (await client.request()).body == b"late"


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/pods?watch=1",
        "/api/v1/namespaces/a/pods/b/log?follow=true",
        "/api/v1/namespaces/a/services/b/proxy/c",
    ],
)
async def test_a_long_running_request_may_take_any_time(
    api: ScriptedApiServer, client: HttpClient, target: str
) -> None:
    async def answer_late(connection: ScriptedConnection, request: SeenRequest) -> None:
        await asyncio.sleep(0.3)
        await connection.respond(b"late")

    api.script = answer_late

    assert (await client.request(target=target)).body == b"late"


async def test_an_answer_in_time_stops_the_clock(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    assert (await client.request()).status == 200
    await asyncio.sleep(0.25)

    assert (await client.request()).status == 200


async def test_an_api_server_that_is_not_there_is_a_503(
    api: ScriptedApiServer, proxy: tuple[str, int], client: HttpClient
) -> None:
    api.stop_listening()
    for connection in list(api.connections.values()):
        await connection.cut()
    await eventually(lambda: api.open_forwarding == 0)

    answer = await client.request("POST", body=b"hello")

    assert status_of(answer) == (503, "ServiceUnavailable", 503)
    assert answer.values("retry-after") == ["1"]  # nothing was sent, so it may come again


async def test_a_proxy_without_its_api_server_starts_and_refuses(
    certificates: Certificates, tmp_path: Path
) -> None:
    nowhere = ScriptedApiServer(("127.0.0.1", 1))
    settings = settings_for(nowhere, certificates, tmp_path)
    async with (
        run_proxy(settings) as proxy,
        connected(proxy.address, certificates.client_context("alice")) as client,
    ):
        assert status_of(await client.request())[0] == 503
