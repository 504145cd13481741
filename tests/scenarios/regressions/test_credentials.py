"""Regressions 5, 8 and 14: what is no credential, whose word counts, and where tokens never are."""

import base64
import io
import json
from pathlib import Path

import aiohttp
import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.scenarios.regressions.conftest import events_in
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Headers, connected
from tests.support.scripted_api_server import (
    OWN_TOKEN,
    ScriptedApiServer,
    ScriptedConnection,
    SeenRequest,
    echo,
)

UNAUTHORIZED = (401, "Unauthorized", 401)
ROOT = {"username": "root", "groups": ["system:masters"]}
SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
WEBSOCKET: Headers = [("Connection", "Upgrade"), ("Upgrade", "websocket")]


def bearer(token: str) -> Headers:
    return [("Authorization", f"Bearer {token}")]


def in_subprotocol(token: str) -> Headers:
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return [*WEBSOCKET, ("Sec-WebSocket-Protocol", f"{SUBPROTOCOL}{encoded}, v5.channel.k8s.io")]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        "Bearer  known",
        "Bearer\tknown",
        "bearer:known",
        "known",
    ],
)
async def test_05_a_token_that_is_none_is_nobody_and_never_reviewed(
    api: ScriptedApiServer, connect: Connect, value: str
) -> None:
    api.tokens.update({"known": "alice", "": "root"})
    async with connect(None) as client:
        answer = await client.request(headers=[("Authorization", value)])

    assert status_of(answer) == UNAUTHORIZED
    assert (api.requests, api.reviewed_tokens) == ([], [])


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "user": ROOT},
        {"user": ROOT},
        {"authenticated": None, "user": ROOT},
        {"authenticated": "true", "user": ROOT},
        {"authenticated": True, "user": ROOT, "error": "token expired"},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", [bearer, in_subprotocol])
async def test_05_anything_but_a_plain_yes_is_a_no(
    api: ScriptedApiServer, connect: Connect, status: dict[str, object], way: object
) -> None:
    assert callable(way)
    api.token_statuses["t"] = status
    async with connect(None) as client:
        answer = await client.request(headers=way("t"))

    assert status_of(answer) == UNAUTHORIZED
    assert api.reviewed_tokens == ["t"]
    assert api.requests == []


@pytest.mark.parametrize("name", ["system:serviceaccount:a:b", "system:node:n1", "system:admin"])
async def test_08_the_api_server_and_certificates_may_say_system(
    api: ScriptedApiServer,
    connect: Connect,
    proxy: tuple[str, int],
    certificates: Certificates,
    name: str,
) -> None:
    api.tokens["t"] = name
    async with connect(None) as client:
        by_token = await client.request(headers=bearer("t"))
    async with connected(proxy, certificates.client_context(name)) as client:
        by_certificate = await client.request()

    users = [json.loads(answer.body)["user"] for answer in (by_token, by_certificate)]
    assert users == [name, name]


def unsigned_token(**claims: object) -> str:
    """Return a token that says what somebody wants it to say."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return b".".join([*map(base64.urlsafe_b64encode, parts), b""]).decode().replace("=", "")


@pytest.mark.parametrize("way", [bearer, in_subprotocol])
async def test_08_what_a_token_says_of_itself_is_never_believed(
    api: ScriptedApiServer, connect: Connect, way: object
) -> None:
    assert callable(way)
    token = unsigned_token(sub="system:admin", groups=["system:masters"], name="system:admin")
    headers = [*way(token), ("Impersonate-User", "bob")]
    async with connect(None) as client:
        answer = await client.request(headers=headers)

    assert status_of(answer) == UNAUTHORIZED
    assert api.reviewed_tokens == [token]
    assert (api.requests, api.reviewed_access) == ([], [])


CANARY = "canary-canary-canary"
ENCODED = base64.urlsafe_b64encode(CANARY.encode()).decode().rstrip("=")


async def fail(connection: ScriptedConnection, _request: SeenRequest) -> None:
    await connection.cut()


def requests_with_a_secret() -> list[bytes]:
    """Return requests of every fate, each with the token somewhere."""
    head = f"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {CANARY}\r\n"
    lines = "\r\n".join(f"{name}: {value}" for name, value in in_subprotocol(CANARY))
    return [
        f"{head}\r\n".encode(),
        f"{head}Impersonate-User: bob\r\n\r\n".encode(),
        f"{head}Impersonate-Foo: bob\r\n\r\n".encode(),
        f"{head}Authorization: Bearer {CANARY}\r\n\r\n".encode(),
        f"{head}Expect: more\r\n\r\n".encode(),
        f"{head}X: {'x' * 1_100_000}\r\n\r\n".encode(),
        f"{head}Bad Line {CANARY}\r\n\r\n".encode(),
        f"{head}Transfer-Encoding: chunked\r\n\r\nzz{CANARY}\r\n".encode(),
        f"{head.replace('/pods', '/%zz')}\r\n".encode(),
        f"{head.replace('Bearer', 'Basic')}\r\n".encode(),
        f"{head.replace(CANARY, CANARY + '-unknown')}\r\n".encode(),
        f"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n".encode(),
        f"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nImpersonate-Foo: b\r\n{lines}\r\n\r\n".encode(),
    ]


async def page_of_metrics(port: int) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as page,
    ):
        return await page.text()


@pytest.mark.timeout(90)
async def test_14_a_token_is_in_no_log_no_audit_no_metric_no_answer_and_no_request(
    debug_log: io.StringIO,
    api: ScriptedApiServer,
    connect: Connect,
    audit_log: Path,
    admin_port: int,
) -> None:
    api.tokens[CANARY] = "alice"
    answers = b""
    for review_status in ("201 Created", "500 Internal Server Error"):
        api.review_status = review_status
        for script in (echo, fail):
            api.script = script
            for request in requests_with_a_secret():
                async with connect(None) as client:
                    await client.send(request)
                    answer = await client.read_response()
                    answers += repr(answer).encode()
    # One more that is served, so that what came before it has been written down.
    api.script, api.review_status = echo, "201 Created"
    async with connect() as client:
        last = await client.request()
    await eventually(lambda: last.values("audit-id")[0] in str(events_in(audit_log)))
    metrics = await page_of_metrics(admin_port)

    assert CANARY in api.reviewed_tokens
    sinks = {
        "log": debug_log.getvalue(),
        "audit": str(events_in(audit_log)),
        "metrics": metrics,
        "answers": answers.decode("latin-1"),
        "requests": str(api.requests),
    }
    assert "review" in sinks["log"] or "request" in sinks["log"]
    for secret in (CANARY, ENCODED):
        assert [name for name, text in sinks.items() if secret in text] == []
    del sinks["requests"]
    assert [name for name, text in sinks.items() if OWN_TOKEN in text] == []
