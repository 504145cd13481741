"""Regressions 9 and 11: addresses that nobody believes, and texts that two might read two ways."""

from pathlib import Path

import pytest

from tests.scenarios.conftest import Connect, status_of
from tests.scenarios.regressions.conftest import events_in
from tests.support.event_loops import eventually
from tests.support.http_client import Headers, HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

BAD_REQUEST = (400, "BadRequest", 400)
FORGED: Headers = [
    ("X-Forwarded-For", "10.9.9.9, 10.8.8.8"),
    ("x-forwarded-for", "10.9.9.9"),
    ("X-Real-Ip", "10.9.9.9"),
    ("Forwarded", "for=10.9.9.9;by=10.9.9.9"),
    ("X-Forwarded-Host", "10.9.9.9"),
    ("X-Forwarded-Proto", "10.9.9.9"),
    ("X-Forwarded-Client-Cert", "By=10.9.9.9"),
]


async def test_09_a_forged_address_is_neither_forwarded_nor_audited(
    api: ScriptedApiServer, client: HttpClient, audit_log: Path
) -> None:
    answer = await client.request(headers=FORGED)

    assert api.requests[0].values("x-forwarded-for") == ["127.0.0.1"]
    assert "10.9.9.9" not in str(api.requests)
    await eventually(lambda: answer.values("audit-id")[0] in str(events_in(audit_log)))
    assert events_in(audit_log)[-1]["sourceIPs"] == ["127.0.0.1"]


# Written with escapes, so that a failure shows the bytes that were sent.
AMBIGUOUS = [
    ["Impersonate-User: a", "Impersonate-User: b"],
    ["Impersonate-User:", "Impersonate-User: b"],
    ["Impersonate-User: a", "impersonate-user: a"],
    ["Impersonate-User: a", "Impersonate-Uid: 1", "Impersonate-Uid: 2"],
    ["Impersonate-User: a", "Impersonate-Group: system:masters\\xff"],
    ["Impersonate-User: a\\xc3\\x28"],
    ["Impersonate-User: a\\tb"],
    ["Impersonate-User: a\\x0b"],
    ["Impersonate-User: a\\x7fb"],
    ["Impersonate-User: a\\x00b"],
    ["Impersonate-User: a\\rImpersonate-Group: system:masters"],
    ["Impersonate-User: a\\nImpersonate-Group: system:masters"],
    ["Impersonate-User: a", "Impersonate-Extra-a%0d%0ab: c"],
    ["Impersonate-User: a", "Impersonate-Extra-a%ff: c"],
    ["Impersonate-User: a", "Impersonate-Extra-a: c\\xff"],
]


async def test_11_a_text_that_two_might_read_differently_is_a_400(
    api: ScriptedApiServer, connect: Connect
) -> None:
    answers = {}
    for lines in AMBIGUOUS:
        head = "\r\n".join(["GET /api/v1/pods HTTP/1.1", "Host: a", *lines, "", ""])
        async with connect() as client:
            await client.send(head.encode().decode("unicode_escape").encode("latin-1"))
            answers[str(lines)] = status_of(await client.read_response())

    assert answers == dict.fromkeys(answers, BAD_REQUEST)
    assert api.requests == []
    assert api.reviewed_access == []


@pytest.mark.parametrize("name", ["josé", "名前", "a b", "a%20b", "a,b", "Impersonate-User: c"])
async def test_11_an_odd_name_is_reviewed_and_forwarded_as_it_is(
    api: ScriptedApiServer, client: HttpClient, name: str
) -> None:
    answer = await client.request(headers=[("Impersonate-User", name)])

    assert answer.status == 200
    assert api.requests[0].user.encode("latin-1").decode() == name
    reviewed = [spec["resourceAttributes"].get("name") for spec in api.reviewed_access]
    assert reviewed == ["", name]


@pytest.mark.parametrize(
    ("sent", "key", "forwarded"),
    [
        ("Acme.com%2fProject", "acme.com/project", "acme.com%2Fproject"),
        ("acme.com%2f%50roject", "acme.com/Project", "acme.com%2F%50roject"),
        ("a%252fb", "a%2fb", "a%252fb"),
        ("a%zzb", "a%zzb", "a%25zzb"),
        ("a%20b", "a b", "a%20b"),
        ("caf%c3%a9", "café", "caf%C3%A9"),
    ],
)
async def test_11_an_odd_key_is_reviewed_and_forwarded_with_one_meaning(
    api: ScriptedApiServer, client: HttpClient, sent: str, key: str, forwarded: str
) -> None:
    headers = [("Impersonate-User", "bob"), (f"Impersonate-Extra-{sent}", "v")]

    answer = await client.request(headers=headers)

    assert answer.status == 200
    names = [name for name, _ in api.requests[0].headers if "Extra" in name]
    assert names == [f"Impersonate-Extra-{forwarded}"]
    attributes = [spec["resourceAttributes"] for spec in api.reviewed_access]
    assert key in [one["subresource"] for one in attributes if one["resource"] == "userextras"]
