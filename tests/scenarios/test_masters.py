"""`system:masters` with anything beside it: refused, or a group of its own, never that one."""

import pytest

from tests.scenarios.conftest import Connect
from tests.support.scripted_api_server import ScriptedApiServer

MASTERS = b"system:masters"
HEAD = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nImpersonate-User: bob\r\n"
BESIDE = [bytes([byte]) for byte in range(256)] + [b"\xc2\xa0", b"\xe2\x80\x8b", b"\r\n ", b"%20"]


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
async def test_a_group_beside_masters_is_refused_or_another_one(
    api: ScriptedApiServer, connect: Connect, *, is_before: bool
) -> None:
    groups = [beside + MASTERS if is_before else MASTERS + beside for beside in BESIDE]

    statuses = dict(zip(BESIDE, await ask_for_each(connect, groups), strict=True))

    forwarded = [request.values("impersonate-group")[0] for request in api.requests]
    accepted = [beside for beside, status in statuses.items() if status == 200]
    assert set(statuses.values()) == {200, 400, 403}
    assert len(forwarded) == len(accepted)
    assert "system:masters" not in [group.strip() for group in forwarded]
    # Blanks around a value are no part of it in HTTP, so this is the group itself: protected.
    assert [beside for beside, status in statuses.items() if status == 403] == [b"\t", b" "]


async def ask_for_each(connect: Connect, groups: list[bytes]) -> list[int]:
    """Ask for each group, on as few connections as the answers allow."""
    statuses: list[int] = []
    while len(statuses) < len(groups):
        async with connect() as client:
            for group in groups[len(statuses) :]:
                await client.send(HEAD + b"Impersonate-Group: " + group + b"\r\n\r\n")
                answer = await client.read_response()
                statuses.append(answer.status)
                if answer.values("connection") == ["close"]:
                    break
    return statuses


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
async def test_a_reviewed_group_beside_masters_is_refused_or_another_one(
    api: ScriptedApiServer, connect: Connect, *, is_before: bool
) -> None:
    """What the API server says of a token is JSON, so there a blank is part of the group."""
    statuses = {}
    async with connect(None) as client:
        for number, beside in enumerate(map(chr, range(256))):
            group = f"{beside}system:masters" if is_before else f"system:masters{beside}"
            user = {"username": "eve", "groups": [group]}
            api.token_statuses[f"t{number}"] = {"authenticated": True, "user": user}
            answer = await client.request(headers=[("Authorization", f"Bearer t{number}")])
            statuses[beside] = answer.status

    forwarded = [request.values("impersonate-group")[0] for request in api.requests]
    refused = {beside for beside, status in statuses.items() if status == 403}
    assert set(statuses.values()) == {200, 403}
    assert refused == {*map(chr, range(33)), "\x7f"}
    assert "system:masters" not in [group.strip() for group in forwarded]
