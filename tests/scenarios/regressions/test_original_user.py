"""Regression 10: whoever is behind an impersonation is told by us, or by nobody."""

import pytest

from proxy.settings.model import Settings
from tests.scenarios.conftest import Connect, status_of
from tests.scenarios.regressions.conftest import Change
from tests.support.http_client import HttpClient
from tests.support.scripted_api_server import ScriptedApiServer

RESERVED = "original-user.kube-understudy.io"


@pytest.fixture(params=[False, True], ids=["off", "on"])
def change(request: pytest.FixtureRequest) -> Change:
    """Tell the API server the original user, or do not."""

    def told(settings: Settings) -> Settings:
        update = {"original_user_extra": request.param}
        return settings.model_copy(update={"upstream": settings.upstream.model_copy(update=update)})

    return told


KEYS = [
    f"{RESERVED}%2Fname",
    f"{RESERVED}%2fgroups",
    f"{RESERVED.upper()}%2FUID",
    "%4friginal-user.kube-understudy.io%2Fname",
    "original%2duser.kube%2Dunderstudy.io%2Fname",
    "original_user.kube-understudy.io%2Fname",
    RESERVED,
    f"{RESERVED}%2Fsomething.new",
]


async def test_10_a_client_cannot_name_an_original_user(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    answers = {}
    for key in KEYS:
        headers = [("Impersonate-User", "bob"), (f"Impersonate-Extra-{key}", "root")]
        answers[key] = status_of(await client.request(headers=headers))

    assert answers == dict.fromkeys(KEYS, (400, "BadRequest", 400))
    assert api.requests == []
    assert api.reviewed_access == []


async def test_10_nor_can_whoever_authenticates_it(
    api: ScriptedApiServer, connect: Connect
) -> None:
    user = {"username": "eve", "extra": {f"{RESERVED}/name": ["root"]}}
    api.token_statuses["t"] = {"authenticated": True, "user": user}
    async with connect(None) as client:
        answer = await client.request(headers=[("Authorization", "Bearer t")])

    assert status_of(answer) == (403, "Forbidden", 403)
    assert api.requests == []


async def test_10_the_original_user_is_told_only_where_that_is_wanted(
    api: ScriptedApiServer, client: HttpClient, change: Change, settings: Settings
) -> None:
    is_told = change(settings).upstream.original_user_extra

    await client.request(headers=[("Impersonate-User", "bob"), ("Impersonate-Extra-a", "b")])
    await client.request()

    impersonated, as_herself = api.requests
    name = f"impersonate-extra-{RESERVED}%2fname"
    assert impersonated.values(name) == (["alice"] if is_told else [])
    assert (RESERVED in str(impersonated)) is is_told
    assert impersonated.values("impersonate-extra-a") == ["b"]
    assert RESERVED not in str(as_herself)
