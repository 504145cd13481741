"""Tokens for somebody else, and tokens of WebSockets in every malformed form, at the data port."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.runtime.proxy import run_proxy
from proxy.settings.model import Settings
from tests.scenarios.conftest import settings_document
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Headers, HttpClient, connected
from tests.support.scripted_api_server import ScriptedApiServer

OURS = "https://understudy.example"
PREFIX = "base64url.bearer.authorization.k8s.io."
UPGRADE: Headers = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="),
]


def encoded(token: str) -> str:
    return PREFIX + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


@pytest.fixture
async def client(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[HttpClient]:
    """A client without a certificate, of a proxy that has an audience of its own."""
    api.token_statuses["good"] = reviewed([OURS])
    document = settings_document(api, certificates, tmp_path)
    document["authentication"]["tokenReview"] = {"audiences": [OURS, "second"]}
    async with (
        run_proxy(Settings.model_validate(document)) as proxy,
        connected(proxy.address, certificates.client_context()) as client,
    ):
        await eventually(lambda: proxy._upstream.identity_monitor.usernames)
        assert (await client.request(headers=bearer("good"))).status == 200
        api.requests.clear()
        yield client


def bearer(token: str) -> Headers:
    return [("Authorization", f"Bearer {token}")]


def reviewed(audiences: object, **more: object) -> dict[str, object]:
    return {
        "authenticated": True,
        "user": {"username": "bob", "groups": ["dev"]},
        "audiences": audiences,
        **more,
    }


REFUSED: dict[str, dict[str, object]] = {
    "missing": {"authenticated": True, "user": {"username": "bob"}},
    "none": reviewed(None),
    "empty": reviewed([]),
    "foreign": reviewed(["https://elsewhere.example"]),
    "the API server's": reviewed(["https://kubernetes.default.svc"]),
    "a part": reviewed([OURS[:-1], OURS + "/", OURS.upper(), "second "]),
    "a text": reviewed(OURS),
    "a mapping": reviewed({OURS: True}),
    "a number among them": reviewed([OURS, 7]),
    "nested": reviewed([[OURS]]),
    "an empty text": reviewed([""]),
    "an error beside it": reviewed([OURS], error="token is not for this audience"),
    "a text for a yes": {**reviewed([OURS]), "authenticated": "true"},
    "no user": {"authenticated": True, "audiences": [OURS]},
}


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("is_websocket", [False, True], ids=["header", "websocket"])
async def test_a_token_that_is_not_for_this_proxy_is_nobody_s(
    api: ScriptedApiServer, client: HttpClient, answer: dict[str, object], *, is_websocket: bool
) -> None:
    api.token_statuses["odd"] = answer
    shown = (
        [*UPGRADE, ("Sec-WebSocket-Protocol", f"v5.channel.k8s.io, {encoded('odd')}")]
        if is_websocket
        else bearer("odd")
    )

    # The second must not be served from memory; a refused upgrade ends its connection.
    for _ in range(1 if is_websocket else 2):
        assert (await client.request(headers=shown)).status in (401, 503)

    assert api.requests == []


@pytest.mark.parametrize("audiences", [[OURS], ["x", OURS], ["second"] * 3, [OURS] * 100], ids=len)
async def test_one_audience_of_a_list_is_enough(
    api: ScriptedApiServer, client: HttpClient, audiences: list[str]
) -> None:
    api.token_statuses["listed"] = reviewed(audiences)

    assert (await client.request(headers=bearer("listed"))).status == 200


GOOD = encoded("good")
MALFORMED = {
    "alone": GOOD,
    "padded": f"v5, {GOOD}==",
    "padded in the middle": f"v5, {GOOD[:-2]}=={GOOD[-2:]}",
    "twice": f"v5, {GOOD}, {GOOD}",
    "twice, one odd": f"v5, {GOOD}, {PREFIX}!!!",
    "standard alphabet": f"v5, {PREFIX}Z29v+/Q",
    "empty": f"v5, {PREFIX}",
    "a blank in it": f"v5, {PREFIX}Z29 vZA",
    "a tab in it": f"v5, {PREFIX}Z29\tvZA",
    "quoted": f'v5, "{GOOD}"',
    "one character": f"v5, {PREFIX}Z",
    "odd bits": f"v5, {PREFIX}Z29vZB",
    "not UTF-8": f"v5, {PREFIX}__79",
    "a NUL": f"v5, {encoded('good' + chr(0))}",
    "a line": f"v5, {encoded('good' + chr(13) + chr(10) + 'X: y')}",
    "capital prefix": f"v5, {GOOD.replace('base64url', 'BASE64URL')}",
    "a semicolon": f"v5; {GOOD}",
    "huge": f"v5, {PREFIX}{'A' * 60_000}",
    "thousands": "v5, " + ", ".join([f"{PREFIX}Z{n:04}" for n in range(2000)]),
    "other prefix": f"v5, {GOOD.replace('bearer', 'basic')}",
}


@pytest.mark.parametrize("protocols", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_token_of_a_websocket_is_no_credential(
    api: ScriptedApiServer, client: HttpClient, protocols: str
) -> None:
    """`odd bits` decode as `good` does, as with Go, and are a token of their own nevertheless."""
    answer = await client.request(headers=[*UPGRADE, ("Sec-WebSocket-Protocol", protocols)])

    if protocols == MALFORMED["odd bits"]:
        assert answer.status in (200, 401)
    else:
        assert answer.status in (400, 401, 431)
        assert api.requests == []


async def test_a_good_token_of_a_websocket_is_one(
    api: ScriptedApiServer, client: HttpClient
) -> None:
    """The sibling of all that is refused above; what was a token is not passed on."""
    answer = await client.request(headers=[*UPGRADE, ("Sec-WebSocket-Protocol", f"v5, {GOOD}")])

    assert answer.status == 200
    (seen,) = api.requests
    assert seen.user == "bob"
    assert seen.values("sec-websocket-protocol") == ["v5"]
