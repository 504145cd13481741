"""Exec by WebSocket is a GET and by SPDY a POST: which permissions that asks for."""

import pytest

from tests.support.http_client import Headers, HttpClient, request_bytes
from tests.support.scripted_api_server import ScriptedApiServer, switch_protocols

EXEC = "/api/v1/namespaces/n/pods/p/exec?command=id"
ON_GET, ON_CREATE = "impersonate-on:user-info:get", "impersonate-on:user-info:create"


@pytest.fixture(params=[False, True], ids=["as natively", "with create"])
def needs_create(request: pytest.FixtureRequest) -> bool:
    needed: bool = request.param
    return needed


@pytest.fixture
def impersonation_settings(*, needs_create: bool) -> dict[str, bool]:
    return {"upgradeNeedsCreate": needs_create}


async def open_terminal(client: HttpClient, method: str, protocol: str) -> int:
    wish: Headers = [("Connection", "Upgrade"), ("Upgrade", protocol), ("Impersonate-User", "bob")]
    await client.send(request_bytes(method, EXEC, headers=wish))
    return (await client.read_head()).status


def actions_asked(api: ScriptedApiServer) -> list[str]:
    verbs = [spec["resourceAttributes"]["verb"] for spec in api.reviewed_access]
    return [verb for verb in verbs if verb.startswith("impersonate-on:")]


async def test_a_websocket_asks_for_get_and_for_create_only_where_that_is_wanted(
    api: ScriptedApiServer, client: HttpClient, *, needs_create: bool
) -> None:
    api.script = switch_protocols

    assert await open_terminal(client, "GET", "websocket") == 101
    assert actions_asked(api) == ([ON_GET, ON_CREATE] if needs_create else [ON_GET])


async def test_spdy_asks_for_create(api: ScriptedApiServer, client: HttpClient) -> None:
    api.script = switch_protocols

    assert await open_terminal(client, "POST", "SPDY/3.1") == 101
    assert set(actions_asked(api)) == {ON_CREATE}


@pytest.mark.parametrize(("method", "protocol"), [("GET", "websocket"), ("POST", "SPDY/3.1")])
async def test_without_the_permission_there_is_no_terminal(
    api: ScriptedApiServer, client: HttpClient, method: str, protocol: str
) -> None:
    api.access_status = {"allowed": False}

    assert await open_terminal(client, method, protocol) == 403
    assert api.requests == []
