"""Exactly one identity reaches the API server, and it is never one the client wrote itself.

The scripted server holds every request against that rule; here are the clients that try.
"""

import json

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.support.http_client import HttpClient, request_bytes
from tests.support.scripted_api_server import OWN_TOKEN, ScriptedApiServer

STOLEN = [
    ("X-Remote-User", "root"),
    ("X-Remote-Group", "system:masters"),
    ("X-Remote-Extra-Scopes", "all"),
    ("X_Remote_User", "root"),
    ("x-remote-uid", "0"),
    ("Proxy-Authorization", "Bearer canary"),
    ("X-Forwarded-For", "10.9.9.9"),
    ("X-Real-Ip", "10.9.9.9"),
    ("Forwarded", "for=10.9.9.9"),
    ("X-Forwarded-Client-Cert", "By=root"),
    ("TE", "trailers"),
    ("Trailer", "Impersonate-User"),
    ("Keep-Alive", "timeout=5"),
]


async def test_a_caller_is_forwarded_as_itself_in_full(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    await client.request()

    (request,) = api.requests
    assert request.values("impersonate-user") == ["alice"]
    assert request.values("impersonate-group")[-1] == "system:authenticated"
    assert request.values("x-forwarded-for") == ["127.0.0.1"]
    assert request.values("authorization") == [f"Bearer {OWN_TOKEN}"]


async def test_what_a_client_claims_does_not_cross(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    answer = await client.request(headers=[*STOLEN, ("Authorization", "Bearer canary")])

    assert answer.status == 200
    (request,) = api.requests
    names = {name.lower() for name, _ in request.headers}
    assert not names & {name.lower() for name, _ in STOLEN} - {"x-forwarded-for"}
    assert "canary" not in str(request)
    assert "10.9.9.9" not in str(request)
    assert request.user == "alice"


@pytest.mark.parametrize(
    "lines",
    [
        ["Impersonate-User, Impersonate-Group, Authorization"],
        ["", "Impersonate-User"],
        ["impersonate-user", "IMPERSONATE-GROUP, authorization , audit-id, host, content-length"],
        ["close, X-Forwarded-For, Impersonate-User"],
    ],
)
async def test_naming_our_headers_in_connection_removes_none_of_them(
    api: ScriptedApiServer, client: HttpClient, lines: list[str]
) -> None:
    answer = await client.request(
        "POST", headers=[("Connection", line) for line in lines], body=b"hello"
    )

    assert json.loads(answer.body)["bytes"] == 5
    (request,) = api.requests
    assert request.user == "alice"
    assert request.values("impersonate-group")
    assert request.values("x-forwarded-for") == ["127.0.0.1"]


async def test_a_trailer_is_no_header(api: ScriptedApiServer, client: HttpClient) -> None:
    await client.send(
        request_bytes("PUT", headers=[("Transfer-Encoding", "chunked")])
        + b"5;ext=1\r\nhello\r\n0\r\nImpersonate-User: root\r\nAuthorization: Bearer x\r\n\r\n"
    )
    answer = await client.read_response()

    assert json.loads(answer.body)["bytes"] == 5
    assert api.requests[0].user == "alice"


async def test_an_allowed_impersonation_is_forwarded_as_the_wanted_identity(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    answer = await client.request(headers=[("Impersonate-User", "bob"), ("impersonate-group", "g")])

    assert answer.status == 200
    (request,) = api.requests
    assert request.values("impersonate-user") == ["bob"]
    assert request.values("impersonate-group") == ["g", "system:authenticated"]
    assert "alice" not in str(request)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([("Impersonate-User", "a"), ("Impersonate-User", "b")], id="two users"),
        pytest.param([("Impersonate-Group", "system:masters")], id="a group alone"),
        pytest.param([("Impersonate_User", "root")], id="an underscore"),
        pytest.param([("Impersonate-Foo", "root")], id="an unknown one"),
        pytest.param([("Authorization", "Bearer a"), ("Authorization", "")], id="two tokens"),
        pytest.param([("Audit-ID", "a"), ("Audit-ID", "b")], id="two audit ids"),
        pytest.param([("HTTP2-Settings", "AAMAAABkAAQAAP__")], id="another protocol"),
    ],
)
async def test_doubtful_claims_are_a_400_and_reach_nobody(
    api: ScriptedApiServer, client: HttpClient, headers: list[tuple[str, str]]
) -> None:
    assert status_of(await client.request(headers=headers)) == (400, "BadRequest", 400)
    assert api.requests == []


async def test_protected_groups_reach_nobody(api: ScriptedApiServer, client: HttpClient) -> None:
    headers = [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")]

    assert status_of(await client.request(headers=headers))[0] == 403
    assert api.requests == []


async def test_a_token_is_reviewed_once_and_never_forwarded(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.tokens["canary"] = "system:serviceaccount:a:b"
    async with connect(None) as client:
        answers = [
            await client.request(headers=[("Authorization", "bearer canary")]) for _ in range(3)
        ]

    assert {json.loads(answer.body)["user"] for answer in answers} == {"system:serviceaccount:a:b"}
    assert api.reviewed_tokens == ["canary"]
    assert "canary" not in str(api.requests)


async def test_each_request_on_a_connection_is_its_own_callers(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.tokens.update({"a": "ann", "b": "ben"})
    async with connect(None) as client:
        users = []
        for token in ("a", "b", "nobody", "a"):
            answer = await client.request(headers=[("Authorization", f"Bearer {token}")])
            users.append(json.loads(answer.body).get("user", answer.status))

    assert users == ["ann", "ben", 401, "ann"]


@pytest.mark.parametrize(
    "headers", [[], [("Authorization", "Bearer wrong")], [("Authorization", "Basic YTpi")]]
)
async def test_without_a_good_credential_it_is_a_401_on_an_open_connection(
    api: ScriptedApiServer, connect: Connect, headers: list[tuple[str, str]]
) -> None:
    async with connect(None) as client:
        for _ in range(2):
            answer = await client.request(headers=headers)
            assert status_of(answer) == (401, "Unauthorized", 401)
            assert answer.values("connection") == []

    assert api.requests == []


@pytest.mark.parametrize("failure", ["500 Internal Server Error", "429 Too Many Requests"])
async def test_a_token_nobody_can_review_is_a_503_never_a_401(
    api: ScriptedApiServer, connect: Connect, failure: str
) -> None:
    api.tokens["t"] = "ann"
    api.review_status = failure
    headers = [("Authorization", "Bearer t")]
    async with connect(None) as client:
        assert status_of(await client.request(headers=headers))[0] == 503

        api.review_status = "201 Created"

        assert (await client.request(headers=headers)).status == 200


@pytest.mark.parametrize(
    ("target", "method"),
    [
        ("*", "OPTIONS"),
        ("https://elsewhere.example/api", "GET"),
        ("/api/v1/pods#x", "GET"),
        ("/api/v1/pods/%zz", "GET"),
        ("/api/v1/pods/%00", "GET"),
    ],
)
async def test_a_target_that_is_not_a_plain_path_is_a_400(
    api: ScriptedApiServer, client: HttpClient, target: str, method: str
) -> None:
    assert status_of(await client.request(method, target)) == (400, "BadRequest", 400)
    assert api.requests == []


async def test_what_cannot_be_read_is_a_status_and_the_end(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    await client.send(b"GET /api HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")

    answer = await client.read_response()

    assert status_of(answer) == (400, "BadRequest", 400)
    assert answer.values("connection") == ["close"]
    assert await client.read_to_end() == b""
    assert api.requests == []


async def test_a_head_of_more_than_a_mebibyte_is_a_431(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    large = await client.request(headers=[("X", "x" * 100_000)] * 10)
    too_large = await client.request(headers=[("X", "x" * 100_000)] * 11)

    assert large.status == 200
    assert status_of(too_large)[0] == 431
    assert too_large.values("connection") == ["close"]
    assert len(api.requests) == 1
