"""Tokens that are meant for the proxy, and tokens that are not."""

import base64
import json
from collections.abc import Iterator

import pytest

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.objects import create_service_account, token_for
from proxy.sandbox.proxy_process import ProxyProcess
from tests.support.control_plane import fresh_name
from tests.support.impersonation import poll

OURS = "https://understudy.example"


@pytest.fixture(scope="module")
def understudy(control_plane: ControlPlane, plain_api_server: ApiServer) -> Iterator[ProxyProcess]:
    """A proxy with an audience of its own."""
    settings = {"authentication": {"tokenReview": {"audiences": [OURS]}}}
    with ProxyProcess(control_plane, plain_api_server, settings=settings) as running:
        yield running


def test_a_token_counts_only_where_it_is_meant_for(
    understudy: ProxyProcess,
    default_understudy: ProxyProcess,
    plain_api_server: ApiServer,
    admin: ApiClient,
    namespace: str,
) -> None:
    name = fresh_name("robot")
    create_service_account(admin, namespace, name)
    audiences = {"the API server": (), "us": (OURS,), "others": ("https://elsewhere.example",)}
    tokens = {
        whom: token_for(admin, namespace, name, audiences=meant)
        for whom, meant in audiences.items()
    }
    poll(
        lambda: understudy.client(tokens["us"]).request("GET", "/version").status == 200,
        "nobody is served",
    )

    def statuses(server: ProxyProcess | ApiServer) -> dict[str, int]:
        return {
            whom: server.client(token).request("GET", "/version").status
            for whom, token in tokens.items()
        }

    assert statuses(understudy) == {"the API server": 401, "us": 200, "others": 401}
    assert statuses(default_understudy) == {"the API server": 200, "us": 401, "others": 401}
    assert statuses(plain_api_server) == {"the API server": 200, "us": 401, "others": 401}


def test_a_token_for_several_counts_where_one_of_them_is_meant(
    understudy: ProxyProcess,
    default_understudy: ProxyProcess,
    plain_api_server: ApiServer,
    admin: ApiClient,
    namespace: str,
) -> None:
    """Audiences are compared as they are: neither by their beginning nor in another case."""
    name = fresh_name("robot")
    create_service_account(admin, namespace, name)
    native = audience_of(token_for(admin, namespace, name).value)
    meant = {
        "us among others": ("https://a.example", OURS, "https://b.example"),
        "us and the API server": (OURS, native),
        "nearly us": (OURS + "/", OURS.upper(), OURS[:-1]),
        "the API server among others": ("https://a.example", native),
    }
    tokens = {
        whom: token_for(admin, namespace, name, audiences=audiences)
        for whom, audiences in meant.items()
    }

    def statuses(server: ProxyProcess | ApiServer) -> dict[str, int]:
        return {
            whom: server.client(token).request("GET", "/version").status
            for whom, token in tokens.items()
        }

    poll(
        lambda: (
            understudy.client(tokens["us among others"]).request("GET", "/version").status == 200
        ),
        "nobody is served",
    )
    for_us = ("us among others", "us and the API server")
    for_them = ("us and the API server", "the API server among others")
    assert statuses(understudy) == {whom: 200 if whom in for_us else 401 for whom in meant}
    expected = {whom: 200 if whom in for_them else 401 for whom in meant}
    assert statuses(default_understudy) == statuses(plain_api_server) == expected


def audience_of(token: str) -> str:
    """Return whom a token is for, if no audience was asked for: the API server."""
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    audience: str = claims["aud"][0]
    return audience
