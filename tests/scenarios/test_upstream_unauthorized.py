"""A 401 from upstream: an application's own passes as it is, one about us never reaches a client.

The client would throw away a credential that is good.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import (
    OWN_TOKEN,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

LOGIN = b"<html>please log in to the console</html>\n\0\xff"
UNAVAILABLE = (503, "ServiceUnavailable", 503)
WIRE = {
    "length": b"Content-Length: %d\r\n\r\n%b" % (len(LOGIN), LOGIN),
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LOGIN), LOGIN),
    "until close": b"Connection: close\r\n\r\n" + LOGIN,
    "in a later piece": b"Content-Length: %d\r\n\r\n" % len(LOGIN),
}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(OWN_TOKEN)
    return file


@pytest.fixture
def upstream_settings(
    api: ScriptedApiServer, tmp_path: Path, token_file: Path
) -> Mapping[str, object]:
    """Our token is in a file, and the file is looked at only when somebody wants it to be."""
    directory = tmp_path / "upstream"
    directory.mkdir()
    kubeconfig = api.write_kubeconfig(directory, tmp_path / "server-ca.crt")
    kubeconfig.write_text(
        kubeconfig.read_text().replace(f'"token": "{OWN_TOKEN}"', f'"tokenFile": "{token_file}"')
    )
    return {"kubeconfig": str(kubeconfig), "credentialRefresh": "1h"}


async def refuse(connection: ScriptedConnection, request: SeenRequest) -> None:
    """An application behind the API server that wants a login of its own."""
    await connection.read_body(request)
    await connection.respond(
        LOGIN, status="401 Nope", headers=('WWW-Authenticate: Basic realm="c"',)
    )


@pytest.mark.parametrize("kind", WIRE)
async def test_an_applications_own_refusal_passes_as_it_is(
    api: ScriptedApiServer, client: HttpClient, kind: str
) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(b'HTTP/1.1 401 Nope\r\nWWW-Authenticate: Basic realm="c"\r\n')
        await connection.send(b"WWW-Authenticate: Negotiate\r\nX-App: 1\r\n" + WIRE[kind])
        if kind == "in a later piece":
            await eventually(lambda: api.probes > before)
            await connection.send(LOGIN)
        if kind == "until close":
            connection.close()

    before = api.probes
    api.script = answer
    await client.send(request_bytes())
    first_line = await client.read_until(b"\r\n")
    rest = await client.read_until(b"\r\n\r\n")
    body = (
        await client.read_exactly(len(LOGIN))
        if b"chunked" not in rest
        else (await client.read_until(b"\r\n0\r\n\r\n")).partition(b"\r\n")[2][
            : -len(b"\r\n0\r\n\r\n")
        ]
    )

    assert first_line == b"HTTP/1.1 401 Nope\r\n"
    assert rest.count(b"WWW-Authenticate: ") == 2
    assert b"X-App: 1\r\n" in rest
    assert body == LOGIN
    assert api.probes == before + 1


async def test_a_refusal_without_a_body_passes(api: ScriptedApiServer, client: HttpClient) -> None:
    async def answer(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(b"", status="401 Unauthorized")

    api.script = answer

    assert [(await client.request(method)).status for method in ("HEAD", "GET")] == [401, 401]


async def test_a_refused_upgrade_passes_and_ends_its_connection(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    api.script = refuse

    await client.send(
        request_bytes(
            target="/api/v1/namespaces/a/pods/b/exec",
            headers=[("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")],
        )
    )
    answer = await client.read_response()

    assert (answer.status, answer.body) == (401, LOGIN)
    assert await client.read_to_end() == b""
    await eventually(lambda: api.open_forwarding == 0)


async def test_many_refusals_at_once_cost_one_question(
    api: ScriptedApiServer, connect: Connect
) -> None:
    before = api.probes
    api.script = refuse
    api.review_gate.clear()

    async def ask(user: str) -> int:
        async with connect(user) as client:
            return (await client.request()).status

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask(f"user-{number}")) for number in range(10)]
        await eventually(lambda: len(api.requests) == 10)
        await eventually(lambda: api.probes == before + 1)
        assert not any(task.done() for task in asking)
        api.review_gate.set()

    assert [task.result() for task in asking] == [401] * 10
    assert api.probes == before + 1


async def test_a_flood_of_refusals_is_no_flood_of_questions(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    before = api.probes
    api.script = refuse
    loop = asyncio.get_running_loop()
    started = loop.time()

    statuses = {(await client.request()).status for _ in range(300)}

    seconds = loop.time() - started
    assert statuses == {401}
    assert api.probes - before <= 1 + seconds


async def test_a_credential_of_ours_that_is_refused_is_a_503_and_is_read_again(
    api: ScriptedApiServer, client: HttpClient, token_file: Path
) -> None:
    await asyncio.to_thread(token_file.write_text, "the-next-token\n")
    api.own_tokens.add("the-next-token")
    api.withdraw(OWN_TOKEN)

    refused = await client.request("POST", body=b"x")
    statuses = [refused.status]
    async with asyncio.timeout(10):
        while statuses[-1] != 200:
            statuses.append((await client.request("POST", body=b"x")).status)

    assert status_of(refused) == UNAVAILABLE
    assert refused.values("retry-after") == ["1"]
    assert refused.values("www-authenticate") == []
    assert b"token" not in refused.body
    assert set(statuses) == {503, 200}
    assert api.requests[-1].values("authorization") == ["Bearer the-next-token"]


@pytest.mark.parametrize("status", ["500 Internal Server Error", "429 Too Many Requests"])
async def test_in_doubt_nobody_is_told_401_nor_to_come_again(
    api: ScriptedApiServer, client: HttpClient, status: str
) -> None:
    api.script = refuse
    api.review_status = status

    answer = await client.request("POST", body=b"x")

    assert status_of(answer) == UNAVAILABLE
    assert answer.values("retry-after") == []
    assert LOGIN not in answer.body
    api.review_status, api.script = "201 Created", echo
    assert (await client.request()).status == 200


async def test_no_word_about_us_in_time_is_doubt(
    api: ScriptedApiServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.upstream.identity.whoami._SECONDS", 0.1)
    api.script = refuse
    api.review_gate.clear()

    answer = await client.request()
    api.review_gate.set()

    assert status_of(answer) == UNAVAILABLE
    assert answer.values("retry-after") == []


@pytest.mark.parametrize("status", ["403 Forbidden", "404 Not Found"])
async def test_who_forbids_us_the_question_knows_us(
    api: ScriptedApiServer, client: HttpClient, status: str
) -> None:
    api.script = refuse
    api.review_status = status

    assert (await client.request()).status == 401
