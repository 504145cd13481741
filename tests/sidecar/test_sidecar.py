"""What the hop passes on, and what it does not, down to the headers the next one sees."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.core.userinfo import UserInfo
from proxy.sidecar.sidecar import SidecarOptions, run_sidecar
from tests.sidecar.conftest import APPLICATION, AUTHORIZED, refusal_of, trusting
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes
from tests.support.scripted_api_server import (
    UNAUTHORIZED,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    switch_protocols,
)


async def test_the_applications_own_token_goes_on_with_the_configured_identity(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    answer = await application.request(headers=[*AUTHORIZED, ("User-Agent", "agent/1")])

    assert answer.status == 200
    (seen,) = api.requests
    assert seen.values("authorization") == [APPLICATION]
    assert [line for line in seen.headers if line[0].lower().startswith("impersonate")] == [
        ("Impersonate-User", "system:node:node-1")
    ]
    assert seen.values("user-agent") == ["agent/1"]


async def test_every_part_of_the_configured_identity_goes_on(
    settings: SidecarOptions, api: ScriptedApiServer, tmp_path: Path
) -> None:
    wanted_user = UserInfo("alice", "u-1", ("dev", "ops"), (("example.com/Why", ("x", "y")),))

    async with (
        run_sidecar(replace(settings, impersonated_user=wanted_user)) as sidecar,
        connected(sidecar.address, trusting(tmp_path / "hop.crt")) as application,
    ):
        await application.request(headers=AUTHORIZED)

    assert [line for line in api.requests[0].headers if line[0].startswith("Impersonate")] == [
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.com%2F%57hy", "x"),
        ("Impersonate-Extra-example.com%2F%57hy", "y"),
    ]


async def test_the_next_one_is_addressed_by_its_own_name(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    await application.request(headers=AUTHORIZED)

    host, port = api.address
    assert api.requests[0].values("host") == [f"{host}:{port}"]


@pytest.mark.parametrize(
    "name",
    [
        "Impersonate-User",
        "impersonate-user",
        "IMPERSONATE-USER",
        "Impersonate_User",
        "iMpErSoNaTe_uSeR",
        "Impersonate-Group",
        "Impersonate-Uid",
        "Impersonate-Extra-scopes",
        "Impersonate-Something-New",
        "Impersonate",
        "Impersonated-By",
    ],
)
async def test_a_request_that_brings_its_own_impersonation_is_refused(
    name: str, application: HttpClient, api: ScriptedApiServer
) -> None:
    answer = await application.request(headers=[*AUTHORIZED, (name, "admin")])

    code, reason, message = refusal_of(answer)
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("impersonation headers are not accepted here")
    assert api.requests == []


async def test_an_empty_impersonation_is_refused_too(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    answer = await application.request(headers=[*AUTHORIZED, ("Impersonate-User", "")])

    assert refusal_of(answer)[0] == 400
    assert api.requests == []


async def test_a_refused_request_is_never_asked_for_its_body(application: HttpClient) -> None:
    headers = [
        *AUTHORIZED,
        ("Impersonate-User", "admin"),
        ("Expect", "100-continue"),
        ("Content-Length", "5"),
    ]

    await application.send(request_bytes("POST", headers=headers))

    assert (await application.read_response()).status == 400


async def test_connection_options_remove_neither_identity_nor_credential(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    named = ("Connection", "Impersonate-User, Authorization, Host")

    answer = await application.request(headers=[*AUTHORIZED, named])

    assert answer.status == 200
    assert api.requests[0].user == "system:node:node-1"


@pytest.mark.parametrize("name", ["X-Remote-User", "x_remote_group", "X-Remote-Extra-a"])
async def test_what_a_front_proxy_would_say_stays_here(
    name: str, application: HttpClient, api: ScriptedApiServer
) -> None:
    await application.request(headers=[*AUTHORIZED, (name, "admin")])

    assert api.requests[0].values(name) == []


async def test_a_request_without_a_credential_goes_on_without_one(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    answer = await application.request()

    assert api.requests[0].values("authorization") == []
    assert answer.status == 200  # The scripted server lets it; the proxy would say 401.
    assert api.violations.pop() == "GET /api/v1/pods: not our credential alone"


@pytest.mark.parametrize("second", ["Authorization", "authorization"])
async def test_two_credentials_are_refused(
    second: str, application: HttpClient, api: ScriptedApiServer
) -> None:
    answer = await application.request(headers=[*AUTHORIZED, (second, "Bearer other")])

    assert refusal_of(answer) == (400, "BadRequest", "more than one Authorization header")
    assert api.requests == []


async def test_a_token_among_the_subprotocols_is_refused_and_not_lost(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    token = ("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.YWJj, v4.channel")

    answer = await application.request(headers=[token])

    assert refusal_of(answer)[0] == 400
    assert api.requests == []


async def test_a_401_is_the_applications_own(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    async def refuse(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.respond(UNAUTHORIZED, status="401 Unauthorized")

    api.script = refuse

    answer = await application.request(headers=AUTHORIZED)

    assert (answer.status, answer.body) == (401, UNAUTHORIZED)
    assert len(api.requests) == 1


async def test_one_audit_id_goes_all_the_way(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    told = await application.request(headers=[*AUTHORIZED, ("Audit-ID", "mine-1")])
    made = await application.request(headers=AUTHORIZED)

    assert [request.values("audit-id") for request in api.requests] == [
        ["mine-1"],
        made.values("audit-id"),
    ]
    assert told.values("audit-id") == ["mine-1"]


async def test_a_body_goes_up_as_it_comes(application: HttpClient, api: ScriptedApiServer) -> None:
    headers = [*AUTHORIZED, ("Transfer-Encoding", "chunked")]

    await application.send(request_bytes("POST", headers=headers))
    await eventually(lambda: api.requests)  # before the body is complete
    await application.send(b"3\r\nabc\r\n0\r\n\r\n")

    assert json.loads((await application.read_response()).body)["bytes"] == 3


async def test_a_watch_comes_event_by_event(
    application: HttpClient, api: ScriptedApiServer
) -> None:
    next_event = asyncio.Event()

    async def watch(connection: ScriptedConnection, request: SeenRequest) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
        )
        await next_event.wait()
        await connection.send(b"4\r\ntwo\n\r\n0\r\n\r\n")

    api.script = watch

    await application.send(request_bytes(target="/api/v1/pods?watch=1", headers=AUTHORIZED))
    await application.read_until(b"one\n")
    next_event.set()
    rest = await application.read_until(b"0\r\n\r\n")

    assert b"two\n" in rest


@pytest.mark.parametrize("protocol", ["SPDY/3.1", "websocket"])
async def test_a_tunnel_is_opaque_both_ways(
    protocol: str, application: HttpClient, api: ScriptedApiServer
) -> None:
    async def shout(connection: ScriptedConnection, request: SeenRequest) -> None:
        await switch_protocols(connection, request)
        while data := await connection.reader.read(100):
            await connection.send(data.upper())

    api.script = shout
    upgrade = [("Connection", "Upgrade"), ("Upgrade", protocol)]

    await application.send(
        request_bytes(
            "POST" if protocol == "SPDY/3.1" else "GET",
            "/api/v1/namespaces/a/pods/b/exec?command=id",
            headers=[*AUTHORIZED, *upgrade],
        )
    )
    switched = await application.read_head()
    await application.send(b"hello")

    assert (switched.status, switched.values("upgrade")) == (101, [protocol])
    assert await application.read_exactly(5) == b"HELLO"
