"""A body that does not come: bounded for what is to end, not for what may last."""

import asyncio

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer

PODS = "/api/v1/namespaces/a/pods"
FRAMINGS = {
    "a length": ([("Content-Length", "1000")], b"x"),
    "chunks": ([("Transfer-Encoding", "chunked")], b"1\r\nx\r\n"),
}


@pytest.fixture
def upstream_settings() -> dict[str, str]:
    return {"responseTimeout": "500ms"}


@pytest.fixture
def serving_settings() -> dict[str, object]:
    return {"limits": {"writesInFlight": 1}}


@pytest.mark.parametrize("trickles", [False, True], ids=["stalls", "trickles"])
@pytest.mark.parametrize(("headers", "piece"), FRAMINGS.values(), ids=FRAMINGS.keys())
async def test_a_body_that_takes_too_long_is_a_504_and_makes_room(
    api: ScriptedApiServer,
    connect: Connect,
    headers: list[tuple[str, str]],
    piece: bytes,
    trickles: object,
) -> None:
    async with connect() as slow, connect() as other:
        await slow.send(request_bytes("POST", PODS, headers=headers) + piece)
        await eventually(lambda: len(api.requests) == 1)
        assert (await other.request("DELETE", f"{PODS}/b")).status == 429
        if trickles:
            while api.open_forwarding:
                await slow.send(piece)
                await asyncio.sleep(0.02)

        async with asyncio.timeout(10):
            answer = await slow.read_response()

        assert status_of(answer) == (504, "Timeout", 504)
        assert answer.values("retry-after") == []
        assert answer.values("connection") == ["close"]
        assert (await other.request("DELETE", f"{PODS}/b")).status == 200
    assert [request.method for request in api.requests] == ["POST", "DELETE"]


@pytest.mark.parametrize("target", [f"{PODS}/b/attach", "/api/v1/namespaces/a/services/b/proxy/c"])
async def test_a_body_of_what_may_last_takes_its_time(
    api: ScriptedApiServer, client: HttpClient, target: str
) -> None:
    await client.send(request_bytes("POST", target, headers=[("Content-Length", "2")]) + b"x")
    await asyncio.sleep(1)
    await client.send(b"y")

    assert (await client.read_response()).status == 200
