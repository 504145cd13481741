"""Regressions 1, 2, 3, 4, 7 and 16: who a request is, is said by us and by nobody else."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.scenarios.regressions.ways import Connecting, Taken, claims, take_every_way
from tests.support.certificates import Certificates
from tests.support.http_client import Headers, HttpClient, connected, request_bytes
from tests.support.scripted_api_server import OWN_TOKEN, ScriptedApiServer

OURS = [("X-Forwarded-For", "127.0.0.1"), ("Authorization", f"Bearer {OWN_TOKEN}")]
AS_GINA = [
    *OURS,
    ("Impersonate-User", "gina"),
    ("Impersonate-Group", "wheel"),
    ("Impersonate-Group", "system:authenticated"),
    ("Impersonate-Extra-authentication.kubernetes.io%2Fcredential-id", "*"),
]
AS_BOB = [
    *OURS,
    ("Impersonate-User", "bob"),
    ("Impersonate-Group", "dev"),
    ("Impersonate-Group", "system:authenticated"),
]
WANTS_BOB: Headers = [("iMPERSONATE-uSER", "bob"), ("impersonate-group", "dev")]


@pytest.fixture
def as_gina(proxy: tuple[str, int], certificates: Certificates) -> Connecting:
    """Somebody in a group, so that groups can be told from each other."""
    return partial(connected, proxy, certificates.client_context("gina", group="wheel"))


@pytest.fixture
async def gina(as_gina: Connecting) -> AsyncIterator[HttpClient]:
    async with as_gina() as client:
        yield client


def told(taken: list[Taken]) -> dict[str, Headers]:
    """Return what arrived on each way about identities."""
    return {one.way: [line for request in one.arrived for line in claims(request)] for one in taken}


def on_every_way(taken: list[Taken], expected: Headers) -> dict[str, Headers]:
    return dict.fromkeys([one.way for one in taken], expected)


def refused(taken: list[Taken]) -> set[int]:
    """Return with which codes it was refused on every way; nothing has arrived on any."""
    assert [one.way for one in taken if one.arrived] == []
    return {one.status for one in taken}


@pytest.mark.parametrize(
    "lines",
    [
        ["Impersonate-User, Impersonate-Group, Authorization, X-Forwarded-For, Audit-ID"],
        ["", "Impersonate-User"],
        ["", "", "IMPERSONATE-USER,,impersonate-GROUP ,\tauthorization"],
        ["impersonate-user", "impersonate-group", "Impersonate_User"],
    ],
    ids=["together", "first empty", "several empty", "split"],
)
async def test_01_naming_our_headers_in_connection_removes_none_of_them(
    api: ScriptedApiServer, as_gina: Connecting, lines: list[str]
) -> None:
    taken = await take_every_way(api, as_gina, [("Connection", line) for line in lines])

    assert told(taken) == on_every_way(taken, AS_GINA)
    assert {len(one.values("audit-id")) for one in api.requests} == {1}


async def test_01_naming_our_headers_removes_none_of_an_impersonation(
    api: ScriptedApiServer, as_gina: Connecting
) -> None:
    named = [("Connection", "Impersonate-Group"), ("Connection", "impersonate-user")]

    taken = await take_every_way(api, as_gina, [*WANTS_BOB, *named])

    assert told(taken) == on_every_way(taken, AS_BOB)


async def test_02_the_groups_of_an_impersonation_replace_all_others(
    api: ScriptedApiServer, as_gina: Connecting
) -> None:
    taken = await take_every_way(api, as_gina, WANTS_BOB)

    assert told(taken) == on_every_way(taken, AS_BOB)


async def test_02_a_group_is_not_added_to_the_caller(
    api: ScriptedApiServer, as_gina: Connecting
) -> None:
    taken = await take_every_way(api, as_gina, [("Impersonate-Group", "system:masters")])

    assert refused(taken) == {400}


async def test_03_no_impersonation_header_of_a_client_survives(
    api: ScriptedApiServer, as_gina: Connecting
) -> None:
    extra = [("IMPERSONATE-EXTRA-Acme.com%2fa", "1"), ("Impersonate-Uid", "7")]

    taken = await take_every_way(api, as_gina, [*WANTS_BOB, *extra])

    expected = [
        *OURS,
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "system:authenticated"),
        ("Impersonate-Extra-acme.com%2Fa", "1"),
    ]
    assert told(taken) == on_every_way(taken, expected)


async def test_03_an_impersonation_without_a_caller_reaches_nobody(
    api: ScriptedApiServer, connect: Connect
) -> None:
    taken = await take_every_way(api, partial(connect, None), WANTS_BOB)

    assert refused(taken) == {401}


async def test_03_an_impersonation_that_is_denied_reaches_nobody(
    api: ScriptedApiServer, as_gina: Connecting
) -> None:
    api.access_status = {"allowed": False}

    taken = await take_every_way(api, as_gina, WANTS_BOB)

    assert refused(taken) == {403}


async def test_03_no_trailer_becomes_a_header(api: ScriptedApiServer, gina: HttpClient) -> None:
    await gina.send(
        request_bytes("PUT", headers=[("Transfer-Encoding", "chunked")])
        + b"5\r\nhello\r\n0\r\nImpersonate-User: root\r\nImpersonate-Group: system:masters\r\n\r\n"
    )
    await gina.read_response()

    assert [claims(request) for request in api.requests] == [AS_GINA]


FRONT_PROXY_HEADERS: Headers = [
    ("X-Remote-User", "root"),
    ("x-remote-GROUP", "system:masters"),
    ("X-Remote-Uid", "0"),
    ("X-Remote-Extra-Scopes", "all"),
    ("X-REMOTE-EXTRA-acme.com%2Fa", "b"),
]


async def test_04_a_front_proxy_s_headers_say_nothing(
    api: ScriptedApiServer, as_gina: Connecting
) -> None:
    taken = await take_every_way(api, as_gina, FRONT_PROXY_HEADERS)

    assert told(taken) == on_every_way(taken, AS_GINA)


async def test_04_a_front_proxy_s_headers_are_no_credential(
    api: ScriptedApiServer, connect: Connect
) -> None:
    taken = await take_every_way(api, partial(connect, None), FRONT_PROXY_HEADERS)

    assert refused(taken) == {401}


NEW_NAMES = [
    "Impersonate-Foo",
    "IMPERSONATE-SCOPE",
    "impersonate-users",
    "Impersonate",
    "ImPersonate-",
]


@pytest.mark.parametrize("beside", [[], WANTS_BOB], ids=["alone", "beside a user"])
async def test_07_an_impersonation_header_we_do_not_know_is_a_400(
    api: ScriptedApiServer, as_gina: Connecting, beside: Headers
) -> None:
    for name in NEW_NAMES:
        taken = await take_every_way(api, as_gina, [*beside, (name, "root")])
        assert refused(taken) == {400}

    assert api.reviewed_access == []


LOOK_ALIKES: Headers = [
    ("X_Remote_User", "root"),
    ("X-Remote_Group", "system:masters"),
    ("X_REMOTE_EXTRA_A", "b"),
    ("X_Forwarded_For", "10.9.9.9"),
    ("X_Real_Ip", "10.9.9.9"),
    ("Proxy_Authorization", "Bearer x"),
    ("Transfer_Encoding", "chunked"),
    ("Content_Length", "100"),
]


async def test_16_a_look_alike_of_an_identity_does_not_cross(
    api: ScriptedApiServer, as_gina: Connecting
) -> None:
    taken = await take_every_way(api, as_gina, LOOK_ALIKES)

    assert told(taken) == on_every_way(taken, AS_GINA)
    assert not [name for request in api.requests for name, _ in request.headers if "_" in name]


@pytest.mark.parametrize(
    "name", ["Impersonate_User", "impersonate_group", "IMPERSONATE.USER", "Impersonate-User_"]
)
async def test_16_a_look_alike_of_an_impersonation_is_a_400(
    api: ScriptedApiServer, gina: HttpClient, name: str
) -> None:
    answer = await gina.request(headers=[(name, "root")])

    assert status_of(answer) == (400, "BadRequest", 400)
    assert api.requests == []


@pytest.mark.parametrize(
    "line",
    [
        "Impersonate-User : root",
        "\u0406mpersonate-User: root",
        "Impersonate\u2010User: root",
        "Impersonate-User\u200b: root",
        " Impersonate-User: root",
    ],
    ids=["blank before the colon", "another I", "another hyphen", "an invisible one", "folded"],
)
async def test_16_a_name_that_is_none_is_a_400_and_the_end(
    api: ScriptedApiServer, gina: HttpClient, line: str
) -> None:
    await gina.send(f"GET /api HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n".encode())
    answer = await gina.read_response()

    assert status_of(answer) == (400, "BadRequest", 400)
    assert await gina.read_to_end() == b""
    assert api.requests == []
