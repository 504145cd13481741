"""`upstream.extras`: what is forwarded of an identity, and what is asked about it."""

import json

import pytest

from tests.scenarios.conftest import Connect, Section, status_of
from tests.support.http_client import Headers
from tests.support.scripted_api_server import ScriptedApiServer, SeenRequest

DROPPED, KEPT, REFUSED = "a.io/dropped", "a.io/kept", "a.io/refused"


@pytest.fixture
def upstream_settings() -> Section:
    return {"extras": {DROPPED: "drop", KEPT: "forward", REFUSED: "refuse"}}


def user_with(*keys: str) -> dict[str, object]:
    user = {"username": "alice", "extra": {key: ["1"] for key in keys}}
    return {"authenticated": True, "user": user}


def extras_of(request: SeenRequest) -> set[str]:
    names = {name.lower() for name, _ in request.headers}
    return {name for name in names if name.startswith("impersonate-extra-")}


BEARER: Headers = [("Authorization", "Bearer t")]
AS_BOB: Headers = [
    ("Impersonate-User", "bob"),
    ("Impersonate-Extra-A.io%2fdropped", "1"),
    ("Impersonate-Extra-A.io%2fkept", "2"),
]


async def test_a_callers_own_extras_are_forwarded_as_configured(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.token_statuses["t"] = user_with(DROPPED, KEPT, "a.io/unnamed")
    async with connect(None) as client:
        answer = await client.request(headers=BEARER)

    assert answer.status == 200
    assert extras_of(api.requests[0]) == {
        "impersonate-extra-a.io%2fkept",
        "impersonate-extra-a.io%2funnamed",
    }


async def test_an_impersonated_extra_is_reviewed_and_then_dropped(
    api: ScriptedApiServer, connect: Connect
) -> None:
    api.token_statuses["t"] = user_with(DROPPED)
    async with connect(None) as client:
        answer = await client.request(headers=[*BEARER, *AS_BOB])

    assert answer.status == 200
    assert extras_of(api.requests[0]) == {"impersonate-extra-a.io%2fkept"}
    reviewed = [review["resourceAttributes"] for review in api.reviewed_access]
    asked = {one["subresource"] for one in reviewed if one["resource"] == "userextras"}
    assert asked == {DROPPED, KEPT}
    assert [set(review["extra"]) for review in api.reviewed_access] == [{DROPPED}] * len(reviewed)


@pytest.mark.parametrize("is_impersonated", [False, True])
async def test_a_refused_extra_is_a_403_that_names_it(
    api: ScriptedApiServer, connect: Connect, is_impersonated: object
) -> None:
    wanted = [("Impersonate-User", "bob"), ("Impersonate-Extra-A.io%2frefused", "1")]
    api.token_statuses["t"] = user_with(*([] if is_impersonated else [REFUSED]))
    async with connect(None) as client:
        answer = await client.request(headers=[*BEARER, *(wanted if is_impersonated else [])])

    assert status_of(answer) == (403, "Forbidden", 403)
    assert REFUSED in json.loads(answer.body)["message"]
    assert api.requests == []
