"""Which credential counts, and what is no credential at all."""

from dataclasses import dataclass, field

import pytest

from proxy.authentication.authenticator import Authenticator, Header, bearer_token
from proxy.core.errors import BadRequest, Forbidden, Unauthorized, UpstreamUnavailable
from proxy.core.identity import Caller, Identity
from proxy.wire.peer import Peer

WITH_CERTIFICATE = Peer("10.0.0.1", b"certificate of alice")
WITH_A_BAD_ONE = Peer("10.0.0.1", b"something else")
WITHOUT = Peer("10.0.0.1")
GOOD_TOKEN = [(b"Authorization", b"Bearer good")]
BAD_TOKEN = [(b"Authorization", b"Bearer bad")]
IN_PROTOCOL = b"base64url.bearer.authorization.k8s.io."
GOOD_PROTOCOL = [(b"Sec-WebSocket-Protocol", IN_PROTOCOL + b"Z29vZA,v5")]
BAD_PROTOCOL = [(b"Sec-WebSocket-Protocol", IN_PROTOCOL + b"YmFk,v5")]


@dataclass
class Certificates:
    name: str = "alice"

    def authenticate(self, certificate: bytes) -> Caller:
        if certificate != WITH_CERTIFICATE.certificate:
            raise Unauthorized
        return Caller(Identity(self.name))


@dataclass
class Tokens:
    name: str = "bob"
    is_reachable: bool = True
    asked: list[bytes] = field(default_factory=list)

    async def authenticate(self, token: bytes, *, address: str) -> Caller:
        self.asked.append(token)
        if not self.is_reachable:
            raise UpstreamUnavailable("nobody answers")
        if token != b"good":
            raise Unauthorized
        return Caller(Identity(self.name))


async def name_of(
    peer: Peer,
    headers: list[Header],
    tokens: Tokens | None = None,
    *,
    upgrade: bytes | None = None,
) -> str:
    authenticator = Authenticator(Certificates(), tokens or Tokens())
    return (await authenticator.authenticate(peer, headers, upgrade=upgrade)).identity.name


async def test_a_certificate_comes_first_and_saves_the_review() -> None:
    tokens = Tokens()

    assert await name_of(WITH_CERTIFICATE, GOOD_TOKEN, tokens) == "alice"
    assert tokens.asked == []


async def test_a_token_is_enough() -> None:
    assert await name_of(WITHOUT, GOOD_TOKEN) == "bob"


async def test_a_bad_certificate_does_not_spoil_a_good_token() -> None:
    assert await name_of(WITH_A_BAD_ONE, GOOD_TOKEN) == "bob"


async def test_a_bad_token_does_not_spoil_a_good_certificate() -> None:
    assert await name_of(WITH_CERTIFICATE, BAD_TOKEN) == "alice"


@pytest.mark.parametrize("peer", [WITHOUT, WITH_A_BAD_ONE], ids=["none", "bad"])
@pytest.mark.parametrize("header", [[], BAD_TOKEN], ids=["alone", "beside a bad header"])
async def test_a_websocket_may_bring_its_token_among_its_protocols(
    peer: Peer, header: list[Header]
) -> None:
    assert await name_of(peer, [*header, *GOOD_PROTOCOL], upgrade=b"websocket") == "bob"


@pytest.mark.parametrize(
    ("peer", "header", "asked"),
    [(WITH_CERTIFICATE, GOOD_TOKEN, []), (WITHOUT, GOOD_TOKEN, [b"good"])],
    ids=["certificate", "header"],
)
async def test_the_token_of_a_websocket_comes_last(
    peer: Peer, header: list[Header], asked: list[bytes]
) -> None:
    tokens = Tokens()

    await name_of(peer, [*header, *BAD_PROTOCOL], tokens, upgrade=b"websocket")

    assert tokens.asked == asked


@pytest.mark.parametrize(
    ("headers", "upgrade"),
    [
        (BAD_PROTOCOL, b"websocket"),
        ([*BAD_TOKEN, *BAD_PROTOCOL], b"websocket"),
        (GOOD_PROTOCOL, None),
        (GOOD_PROTOCOL, b"SPDY/3.1"),
        ([*GOOD_PROTOCOL, *GOOD_PROTOCOL], b"websocket"),
    ],
    ids=["bad", "both bad", "not an upgrade", "another upgrade", "twice"],
)
async def test_among_protocols_anything_but_one_good_token_is_nobody(
    headers: list[Header], upgrade: bytes | None
) -> None:
    with pytest.raises(Unauthorized):
        await name_of(WITHOUT, headers, upgrade=upgrade)


@pytest.mark.parametrize("peer", [WITHOUT, WITH_A_BAD_ONE], ids=["none", "bad"])
@pytest.mark.parametrize(
    "headers",
    [
        [],
        BAD_TOKEN,
        [(b"Authorization", b"")],
        [(b"Authorization", b"Basic YTpi")],
        [(b"X-Remote-User", b"root"), (b"Impersonate-User", b"root")],
    ],
)
async def test_without_a_good_credential_nobody_is_calling(
    peer: Peer, headers: list[Header]
) -> None:
    with pytest.raises(Unauthorized):
        await name_of(peer, headers)


async def test_with_token_review_off_no_token_counts() -> None:
    with pytest.raises(Unauthorized):
        await Authenticator(Certificates(), None).authenticate(WITHOUT, GOOD_TOKEN)


async def test_a_token_nobody_can_review_is_not_a_bad_token() -> None:
    with pytest.raises(UpstreamUnavailable):
        await name_of(WITHOUT, GOOD_TOKEN, Tokens(is_reachable=False))


@pytest.mark.parametrize("peer", [WITHOUT, WITH_CERTIFICATE], ids=["nobody", "certificate"])
@pytest.mark.parametrize("second", [b"Bearer good", b"Bearer bad", b""])
async def test_two_authorization_headers_are_a_400_for_everybody(peer: Peer, second: bytes) -> None:
    tokens = Tokens()

    with pytest.raises(BadRequest):
        await name_of(peer, [*GOOD_TOKEN, (b"authorization", second)], tokens)

    assert tokens.asked == []


@pytest.mark.parametrize("name", ["admin ", " admin", "a\nb", "a\0b", "\ud800"])
async def test_an_identity_that_would_change_on_its_way_is_refused(name: str) -> None:
    tokens = Tokens(name)

    with pytest.raises(Forbidden):
        await name_of(WITHOUT, GOOD_TOKEN, tokens)
    with pytest.raises(Forbidden):
        await Authenticator(Certificates(name), None).authenticate(WITH_CERTIFICATE, [])


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (b"Bearer abc", b"abc"),
        (b"bearer abc", b"abc"),
        (b"BEARER abc", b"abc"),
        (b"Bearer abc def", b"abc"),
        (b"Bearer abc  ", b"abc"),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Bearer  abc", None),
        (b"Bearerabc", None),
        (b"Bearer\tabc", None),
        (b"Basic abc", None),
        (b"abc", None),
        (b"", None),
    ],
)
def test_a_token_is_split_off_as_the_api_server_does(value: bytes, token: bytes | None) -> None:
    assert bearer_token([(b"aUTHORIZATION", value)]) == token


def test_without_the_header_there_is_no_token() -> None:
    assert bearer_token([(b"X-Authorization", b"Bearer abc")]) is None
