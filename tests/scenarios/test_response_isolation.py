"""Nobody ever gets a byte of somebody else's answer, whoever leaves, and whenever."""

import asyncio
import json
import random

import pytest

from tests.scenarios.conftest import Connect
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, ScriptedConnection, SeenRequest
from tests.support.sizes import sized, soak

USERS = [f"user-{number}" for number in range(8)]
REQUESTS = sized(40, full=1250)
LEAVINGS = sized(20, full=1250)  # of each of the eight


async def answer_slowly(connection: ScriptedConnection, request: SeenRequest) -> None:
    """Answer with the user's name over and over, in pieces, so that anything can happen between."""
    chance = random.Random(request.target)
    body = await connection.read_body(request)
    marker = json.dumps({"user": request.user, "target": request.target}).encode()
    answer = marker + b"#" + (request.user.encode() + b";") * chance.randrange(1, 2000) + body
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
    wire = head + answer
    if chance.random() < 0.5:
        size = b"%x\r\n" % len(answer)
        wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        wire += size + answer + b"\r\n0\r\n\r\n"
    while wire:
        cut = chance.randrange(1, 4000)
        await connection.send(wire[:cut])
        wire = wire[cut:]
        await asyncio.sleep(0)


async def one_request(client: HttpClient, user: str, number: int) -> None:
    target = f"/api/v1/namespaces/{user}/pods/{number}"
    body = f"body of {user}".encode() if number % 3 == 0 else b""
    answer = await client.request("PUT" if body else "GET", target, body=body)

    marker, _, rest = answer.body.partition(b"#")
    assert json.loads(marker) == {"user": user, "target": target}
    assert set(rest.removesuffix(body).split(b";")) == {user.encode(), b""}
    assert rest.endswith(body or b";")


async def stay(connect: Connect, user: str) -> None:
    """Send requests and hold every answer against the name of who asked."""
    async with connect(user) as client:
        for number in range(REQUESTS):
            await one_request(client, user, number)


async def come_and_go(connect: Connect, user: str, chance: random.Random) -> None:
    """Send requests and leave in the middle of them, or in the middle of their answers."""
    for number in range(LEAVINGS):
        async with connect(user) as client:
            request = request_bytes(
                "PUT", f"/api/v1/namespaces/{user}/pods/x{number}", body=b"leaving " * 500
            )
            if chance.random() < 0.5:
                await client.send(request[: chance.randrange(1, len(request) * 2)])
                for _ in range(chance.randrange(40)):
                    await asyncio.sleep(0)
            else:
                await client.send(request)
                await client.read_exactly(chance.randrange(1, 4000))


@soak
@pytest.mark.timeout(60)
async def test_leavers_never_spoil_the_answers_of_those_who_stay(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.script = answer_slowly
    chance = random.Random(1)

    async with asyncio.TaskGroup() as group:
        for user in USERS:
            group.create_task(stay(connect, user))
            group.create_task(come_and_go(connect, f"leaver-{user}", chance))

    complete = [request for request in api.requests if "/x" not in request.target]
    assert len(complete) == len(USERS) * REQUESTS
    assert all(request.target.split("/")[4] == request.user for request in api.requests)
    await eventually(lambda: api.open_forwarding <= len(USERS) * 3)
