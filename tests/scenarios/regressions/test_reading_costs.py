"""Requests that would cost far more than their bytes are refused before they are read."""

import pytest

from tests.support.http_client import HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

COSTLY = {
    "selector terms": ("/api/v1/pods?labelSelector=" + "a," * 20_000 + "a", [], 400),
    "timeout": ("/version?timeout=" + "1ns" * 20_000, [], 400),
    "connection options": ("/version", [("Connection", "a," * 20_000 + "a")], 400),
    "header lines": ("/version", [("X-Line", "a")] * 1300, 431),
    "header line": ("/version", [("X-Line", "a" * 200_000)], 431),
    "target": ("/api/v1/pods?labelSelector=" + "a," * 50_000, [], 414),
}


@pytest.mark.parametrize(("target", "headers", "status"), COSTLY.values(), ids=COSTLY.keys())
async def test_17_costly_requests_are_refused_or_answered_at_once(
    target: str,
    headers: list[tuple[str, str]],
    status: int,
    api: ScriptedApiServer,
    client: HttpClient,
) -> None:
    answer = await client.request(target=target, headers=headers)

    assert answer.status == status
    assert len(answer.body) < 4096
    assert api.requests == []


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (b"GET /api/v1/pods?labelSelector=", 414),
        (b"GET /version HTTP/1.1\r\nHost: a\r\nX-Line: ", 431),
    ],
    ids=["target", "header line"],
)
async def test_24_a_head_that_is_refused_is_not_waited_for(
    start: bytes, status: int, api: ScriptedApiServer, client: HttpClient
) -> None:
    await client.send(start + b"a" * 300_000)

    assert (await client.read_response()).status == status
    assert api.requests == []
