"""The table of the API server's own reading of a token among the subprotocols."""

import base64

import pytest

from proxy.authentication.authenticator import websocket_token
from proxy.core.errors import Unauthorized

PREFIX = b"base64url.bearer.authorization.k8s.io."


def encoded(token: bytes) -> bytes:
    return PREFIX + base64.urlsafe_b64encode(token).rstrip(b"=")


def read(*lines: bytes, upgrade: bytes | None = b"websocket") -> bytes | None:
    headers = [(b"Sec-WebSocket-Protocol", line) for line in lines]
    return websocket_token(headers, upgrade=upgrade)


@pytest.mark.parametrize("token", [b"t", b"to", b"tok", b"toke", b"\xc3\xbf?>~~", b"a.b.c"])
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(lambda token: [token + b",v5"], id="first"),
        pytest.param(lambda token: [b"v5 , " + token], id="last"),
        pytest.param(lambda token: [b"v5", token], id="another line"),
        pytest.param(lambda token: [token + b","], id="beside an empty one"),
    ],
)
def test_a_token_is_read_wherever_it_stands(token: bytes, place: object) -> None:
    assert callable(place)

    assert read(*place(encoded(token))) == token


@pytest.mark.parametrize("upgrade", [b"websocket", b"WebSocket", b"WEBSOCKET"])
def test_a_websocket_is_one_in_any_case(upgrade: bytes) -> None:
    assert read(encoded(b"t") + b",v5", upgrade=upgrade) == b"t"


@pytest.mark.parametrize("upgrade", [None, b"SPDY/3.1", b""])
def test_elsewhere_than_on_a_websocket_it_is_no_credential(upgrade: bytes | None) -> None:
    assert read(encoded(b"t") + b",v5", upgrade=upgrade) is None


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="no protocols"),
        pytest.param([b"v5"], id="no token"),
        pytest.param([PREFIX + b",v5"], id="empty"),
        pytest.param([PREFIX], id="empty and the only protocol"),
        pytest.param([PREFIX.upper() + b"dA,v5"], id="another case"),
        pytest.param([b"x" + PREFIX + b"dA,v5"], id="something before it"),
    ],
)
def test_what_is_no_token_is_no_credential(lines: list[bytes]) -> None:
    assert read(*lines) is None


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([encoded(b"t")], id="the only protocol"),
        pytest.param([encoded(b"t") + b"," + encoded(b"t") + b",v5"], id="twice"),
        pytest.param([encoded(b"t"), encoded(b"u"), b"v5"], id="two in two lines"),
        pytest.param([PREFIX + b"dA==,v5"], id="padded"),
        pytest.param([PREFIX + b"dHQ+/w,v5"], id="the other alphabet"),
        pytest.param([PREFIX + b"d A,v5"], id="a blank inside"),
        pytest.param([PREFIX + b"dHR0d,v5"], id="an odd length"),
        pytest.param([PREFIX + b"d!A,v5"], id="a foreign character"),
        pytest.param([encoded(b"\xff\xfe") + b",v5"], id="not UTF-8"),
    ],
)
def test_whatever_is_wrong_with_it_makes_it_a_bad_credential(lines: list[bytes]) -> None:
    with pytest.raises(Unauthorized):
        read(*lines)
