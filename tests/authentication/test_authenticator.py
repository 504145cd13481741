"""Which credential counts, and what is no credential at all."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from proxy.authentication.authenticator import (
    ANONYMOUS_DISABLED,
    AnonymousPolicy,
    Authenticator,
    bearer_token,
)
from proxy.authentication.ca_bundle import PEMBundle
from proxy.authentication.client_trust import (
    ClientTrust,
    ClientTrustReloader,
    build_trust,
)
from proxy.authentication.client_trust_sources import ClientTrustConfig, FrontProxyTrustConfig
from proxy.authentication.token_authenticator import CachedTokenAuthenticator
from proxy.core.errors import (
    BadRequest,
    Forbidden,
    Unauthorized,
    UpstreamUnavailable,
)
from proxy.core.http.front_proxy import FrontProxyHeaderNames
from proxy.core.http.headers import Header
from proxy.core.userinfo import AuthenticationResult, Caller, UserInfo
from proxy.wire.exchange import Peer
from tests.support.chains import CN, ORG, UID, Issuer, Shown, Window

CLIENTS, FRONT_PROXIES, STRANGERS = Issuer("clients"), Issuer("front proxies"), Issuer("strangers")
NAMES = FrontProxyHeaderNames((b"x-user",), (b"x-uid",), (b"x-group",), (b"x-extra-",))
CLIENT_CLAIM = ClientTrustConfig(PEMBundle(CLIENTS.pem, "clients"))
FRONT_PROXY_CLAIM = FrontProxyTrustConfig(PEMBundle(FRONT_PROXIES.pem, "front"), ("front",), NAMES)
ONLY_CLIENTS = build_trust(CLIENT_CLAIM)
BOTH_CLAIM = ClientTrustConfig(CLIENT_CLAIM.client_ca, FRONT_PROXY_CLAIM)
BOTH = build_trust(BOTH_CLAIM)
OTHER_CLAIM = ClientTrustConfig(PEMBundle(STRANGERS.pem, "strangers"))


def peer(shown: Shown) -> Peer:
    return Peer("10.0.0.1", shown.chain)


WITHOUT = Peer("10.0.0.1")
ALICE = peer(CLIENTS.issue((CN, "alice")))
NAMELESS = peer(CLIENTS.issue((ORG, "a")))
STRANGER = peer(STRANGERS.issue((CN, "alice")))
STALE = peer(CLIENTS.issue((CN, "alice"), window=Window(-3, -2)))
FLAWED = peer(CLIENTS.issue((CN, "alice"), (UID, "")))
FRONT = peer(FRONT_PROXIES.issue((CN, "front")))
OTHER_FRONT = peer(FRONT_PROXIES.issue((CN, "alice")))
GOOD_TOKEN = [(b"Authorization", b"Bearer good")]
BAD_TOKEN = [(b"Authorization", b"Bearer bad")]
IN_PROTOCOL = b"base64url.bearer.authorization.k8s.io."
GOOD_PROTOCOL = [(b"Sec-WebSocket-Protocol", IN_PROTOCOL + b"Z29vZA,v5")]
BAD_PROTOCOL = [(b"Sec-WebSocket-Protocol", IN_PROTOCOL + b"YmFk,v5")]
EMPTY_PROTOCOL = [(b"Sec-WebSocket-Protocol", IN_PROTOCOL + b",v5")]
FOR_CAROL = [(b"X-User", b"carol"), (b"X-Group", b"g"), (b"X-Uid", b"7"), (b"X-Extra-K", b"v")]
ANYWHERE = AnonymousPolicy(enabled=True)
NOT_ACCEPTED = {
    "stranger": STRANGER,
    "stale": STALE,
    "flawed": FLAWED,
    "front proxy": FRONT,
    "nameless": NAMELESS,
}


class Believing(ClientTrustReloader):
    """Trusts what it is given, without a source."""

    def __init__(self, trust: ClientTrust) -> None:
        self.trust = trust


@dataclass
class Tokens(CachedTokenAuthenticator):
    name: str = "bob"
    is_reachable: bool = True
    is_cached: bool = True
    asked: list[bytes] = field(default_factory=list)

    async def authenticate(self, token: bytes, *, address: str) -> AuthenticationResult:
        self.asked.append(token)
        if not self.is_reachable:
            raise UpstreamUnavailable("nobody answers")
        if token != b"good":
            raise Unauthorized
        return AuthenticationResult(Caller(UserInfo(self.name)), lambda: self.is_cached)


@dataclass
class Setup:
    """An authenticator, and what it was given."""

    trust: ClientTrust = BOTH
    tokens: Tokens | None = field(default_factory=Tokens)
    anonymous: AnonymousPolicy = ANONYMOUS_DISABLED

    def __post_init__(self) -> None:
        self.reloader = Believing(self.trust)
        self.now = datetime.now(UTC)

    async def authenticate(
        self,
        peer: Peer,
        headers: list[Header],
        *,
        target: bytes = b"/api",
        upgrade: bytes | None = None,
    ) -> AuthenticationResult:
        authenticator = Authenticator(
            self.reloader, self.tokens, clock=lambda: self.now, anonymous=self.anonymous
        )
        return await authenticator.authenticate(peer, headers, target=target, upgrade=upgrade)

    async def identity(
        self,
        peer: Peer,
        headers: list[Header],
        *,
        target: bytes = b"/api",
        upgrade: bytes | None = None,
    ) -> UserInfo:
        return (await self.authenticate(peer, headers, target=target, upgrade=upgrade)).caller.user


async def name_of(
    peer: Peer,
    headers: list[Header],
    tokens: Tokens | None = None,
    *,
    upgrade: bytes | None = None,
) -> str:
    return (await Setup(tokens=tokens or Tokens()).identity(peer, headers, upgrade=upgrade)).name


async def test_a_certificate_comes_first_and_saves_the_review() -> None:
    tokens = Tokens()

    assert await name_of(ALICE, GOOD_TOKEN, tokens) == "alice"
    assert tokens.asked == []


async def test_a_token_is_enough() -> None:
    assert await name_of(WITHOUT, GOOD_TOKEN) == "bob"


@pytest.mark.parametrize("shown", NOT_ACCEPTED.values(), ids=NOT_ACCEPTED)
async def test_a_bad_certificate_does_not_spoil_a_good_token(shown: Peer) -> None:
    assert await name_of(shown, GOOD_TOKEN) == "bob"


@pytest.mark.parametrize("shown", NOT_ACCEPTED.values(), ids=NOT_ACCEPTED)
async def test_a_bad_certificate_alone_is_nobody(shown: Peer) -> None:
    with pytest.raises(Unauthorized):
        await name_of(shown, [])


async def test_a_bad_token_does_not_spoil_a_good_certificate() -> None:
    assert await name_of(ALICE, BAD_TOKEN) == "alice"


@pytest.mark.parametrize("shown", [WITHOUT, STRANGER], ids=["none", "bad"])
@pytest.mark.parametrize("header", [[], BAD_TOKEN], ids=["alone", "beside a bad header"])
async def test_a_websocket_may_bring_its_token_among_its_protocols(
    shown: Peer, header: list[Header]
) -> None:
    assert await name_of(shown, [*header, *GOOD_PROTOCOL], upgrade=b"websocket") == "bob"


@pytest.mark.parametrize(
    ("shown", "header", "asked"),
    [(ALICE, GOOD_TOKEN, []), (WITHOUT, GOOD_TOKEN, [b"good"])],
    ids=["certificate", "header"],
)
async def test_the_token_of_a_websocket_comes_last(
    shown: Peer, header: list[Header], asked: list[bytes]
) -> None:
    tokens = Tokens()

    await name_of(shown, [*header, *BAD_PROTOCOL], tokens, upgrade=b"websocket")

    assert tokens.asked == asked


@pytest.mark.parametrize(
    ("headers", "upgrade"),
    [
        (BAD_PROTOCOL, b"websocket"),
        ([*BAD_TOKEN, *BAD_PROTOCOL], b"websocket"),
        (GOOD_PROTOCOL, None),
        (GOOD_PROTOCOL, b"SPDY/3.1"),
        ([*GOOD_PROTOCOL, *GOOD_PROTOCOL], b"websocket"),
        (EMPTY_PROTOCOL, b"websocket"),
    ],
    ids=["bad", "both bad", "not an upgrade", "another upgrade", "twice", "empty"],
)
async def test_among_protocols_anything_but_one_good_token_is_nobody(
    headers: list[Header], upgrade: bytes | None
) -> None:
    with pytest.raises(Unauthorized):
        await name_of(WITHOUT, headers, upgrade=upgrade)


@pytest.mark.parametrize("shown", [WITHOUT, STRANGER], ids=["none", "bad"])
@pytest.mark.parametrize(
    "headers",
    [
        [],
        BAD_TOKEN,
        [(b"Authorization", b"")],
        [(b"Authorization", b"Basic YTpi")],
        [(b"X-User", b"root"), (b"X-Remote-User", b"root"), (b"Impersonate-User", b"root")],
    ],
)
async def test_without_a_good_credential_nobody_is_calling(
    shown: Peer, headers: list[Header]
) -> None:
    with pytest.raises(Unauthorized):
        await name_of(shown, headers)


async def test_with_token_review_off_no_token_counts() -> None:
    with pytest.raises(Unauthorized):
        await Setup(tokens=None).identity(WITHOUT, GOOD_TOKEN)


async def test_a_token_nobody_can_review_is_not_a_bad_token() -> None:
    with pytest.raises(UpstreamUnavailable):
        await name_of(WITHOUT, GOOD_TOKEN, Tokens(is_reachable=False))


@pytest.mark.parametrize("shown", [WITHOUT, ALICE], ids=["nobody", "certificate"])
@pytest.mark.parametrize("second", [b"Bearer good", b"Bearer bad", b""])
async def test_two_authorization_headers_are_a_400_for_everybody(
    shown: Peer, second: bytes
) -> None:
    tokens = Tokens()

    with pytest.raises(BadRequest):
        await name_of(shown, [*GOOD_TOKEN, (b"authorization", second)], tokens)

    assert tokens.asked == []


ODD_NAMES = ["admin ", " admin", "a\nb", "a\0b", "\udcff"]


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_an_identity_that_would_change_on_its_way_is_refused(name: str) -> None:
    with pytest.raises(Forbidden):
        await name_of(WITHOUT, GOOD_TOKEN, Tokens(name))
    with pytest.raises(Forbidden):
        await name_of(FRONT, [(b"X-User", name.encode("utf-8", "surrogateescape"))])
    if name.isascii():
        with pytest.raises(Forbidden):
            await name_of(peer(CLIENTS.issue((CN, name))), GOOD_TOKEN)


# --- front proxies -------------------------------------------------------------------------


async def test_a_front_proxy_speaks_for_others() -> None:
    assert await Setup().identity(FRONT, FOR_CAROL) == UserInfo(
        name="carol",
        uid="7",
        groups=("g", "system:authenticated"),
        extra=(("k", ("v",)),),
    )


async def test_its_word_comes_before_a_token() -> None:
    tokens = Tokens()

    assert await name_of(FRONT, [*FOR_CAROL, *GOOD_TOKEN], tokens) == "carol"
    assert tokens.asked == []


@pytest.mark.parametrize(
    ("shown", "name"),
    [(ALICE, "alice"), (OTHER_FRONT, None), (STRANGER, None), (WITHOUT, None), (NAMELESS, None)],
    ids=["a user", "a name that is not allowed", "a stranger", "nobody", "a nameless user"],
)
async def test_nobody_else_does(shown: Peer, name: str | None) -> None:
    if name is None:
        with pytest.raises(Unauthorized):
            await name_of(shown, FOR_CAROL)
        assert await name_of(shown, [*FOR_CAROL, *GOOD_TOKEN]) == "bob"
    else:
        assert await name_of(shown, FOR_CAROL) == name


async def test_a_user_of_a_front_proxy_s_name_is_only_a_user() -> None:
    """Which CA verified it decides, not what its subject says."""
    namesake = peer(CLIENTS.issue((CN, "front")))

    assert await name_of(namesake, FOR_CAROL) == "front"


async def test_without_front_proxies_their_certificates_and_headers_say_nothing() -> None:
    setup = Setup(ONLY_CLIENTS)

    assert (await setup.identity(ALICE, FOR_CAROL)).name == "alice"
    with pytest.raises(Unauthorized):
        await setup.identity(FRONT, FOR_CAROL)


async def test_of_a_ca_that_is_both_the_word_comes_first_and_else_the_certificate_counts() -> None:
    front = FrontProxyTrustConfig(PEMBundle(CLIENTS.pem, "both"), ("front",), NAMES)
    setup = Setup(build_trust(ClientTrustConfig(CLIENT_CLAIM.client_ca, front)))
    shown = peer(CLIENTS.issue((CN, "front")))

    assert (await setup.identity(shown, FOR_CAROL)).name == "carol"
    assert (await setup.identity(shown, [])).name == "front"
    assert (await setup.identity(ALICE, FOR_CAROL)).name == "alice"


# --- nobody in particular ------------------------------------------------------------------


async def test_who_shows_nothing_may_be_anonymous_where_that_is_allowed() -> None:
    user = await Setup(anonymous=ANYWHERE).identity(WITHOUT, [])

    assert user == UserInfo("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize(
    ("shown", "headers", "upgrade"),
    [
        (STRANGER, [], None),
        (STALE, [], None),
        (FLAWED, [], None),
        (FRONT, [], None),
        (OTHER_FRONT, FOR_CAROL, None),
        (NAMELESS, [], None),
        (WITHOUT, BAD_TOKEN, None),
        (WITHOUT, BAD_PROTOCOL, b"websocket"),
        (WITHOUT, [*GOOD_PROTOCOL, *GOOD_PROTOCOL], b"websocket"),
        (STRANGER, EMPTY_PROTOCOL, b"websocket"),
    ],
    ids=[
        "stranger",
        "stale",
        "flawed",
        "front proxy without a word",
        "front proxy not allowed",
        "nameless, which is no front proxy",
        "bad token",
        "bad protocol",
        "two protocols",
        "stranger and no token",
    ],
)
async def test_a_bad_credential_does_not_become_anonymous(
    shown: Peer, headers: list[Header], upgrade: bytes | None
) -> None:
    with pytest.raises(Unauthorized):
        await Setup(anonymous=ANYWHERE).identity(shown, headers, upgrade=upgrade)


@pytest.mark.parametrize(
    ("shown", "headers", "upgrade"),
    [
        (WITHOUT, [(b"Authorization", b"Basic YTpi")], None),
        (WITHOUT, [(b"Authorization", b"Bearer ")], None),
        (WITHOUT, EMPTY_PROTOCOL, b"websocket"),
        (WITHOUT, FOR_CAROL, None),
        (NAMELESS, [], None),
    ],
    ids=["another scheme", "no token", "no token in a protocol", "headers", "nameless"],
)
async def test_what_is_no_credential_does_not_prevent_it(
    shown: Peer, headers: list[Header], upgrade: bytes | None
) -> None:
    setup = Setup(ONLY_CLIENTS, anonymous=ANYWHERE)

    assert (await setup.identity(shown, headers, upgrade=upgrade)).name == "system:anonymous"


@pytest.mark.parametrize(
    ("target", "is_served"),
    [
        (b"/livez", True),
        (b"/livez?verbose", True),
        (b"/live%7a", True),
        (b"/livez/", False),
        (b"/livez/ping", False),
        (b"//livez", False),
        (b"/LIVEZ", False),
        (b"/", False),
    ],
)
async def test_some_paths_may_be_anonymous_and_others_not(target: bytes, is_served: object) -> None:
    setup = Setup(anonymous=AnonymousPolicy(enabled=True, paths=frozenset({"/livez"})))

    try:
        served = (await setup.identity(WITHOUT, [], target=target)).name == "system:anonymous"
    except Unauthorized:
        served = False

    assert served is is_served


# --- while nothing is known ----------------------------------------------------------------


async def test_before_the_cas_are_known_a_certificate_is_neither_good_nor_bad() -> None:
    """A 401 would make its owner throw it away."""
    setup = Setup(ClientTrust(is_known=False), anonymous=ANYWHERE)

    with pytest.raises(UpstreamUnavailable):
        await setup.identity(ALICE, [])
    assert (await setup.identity(ALICE, GOOD_TOKEN)).name == "bob"
    assert (await setup.identity(WITHOUT, [])).name == "system:anonymous"
    with pytest.raises(Unauthorized):
        await setup.identity(WITHOUT, BAD_TOKEN)


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


async def rechecked(setup: Setup, peer: Peer, headers: list[Header]) -> Callable[[], bool]:
    """Return the check of a request that is authenticated."""
    result = await setup.authenticate(peer, headers)
    assert result.recheck is not None
    return result.recheck


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        (ALICE, []),
        (ALICE, GOOD_TOKEN),
        (FRONT, FOR_CAROL),
        (WITHOUT, GOOD_TOKEN),
        (STRANGER, GOOD_TOKEN),
    ],
    ids=["certificate", "certificate and token", "front proxy", "token", "token of a stranger"],
)
async def test_equal_request_has_the_same_caller_while_nothing_changes(
    peer: Peer, headers: list[Header]
) -> None:
    recheck = await rechecked(Setup(), peer, headers)

    assert [recheck(), recheck()] == [True, True]


@pytest.mark.parametrize("peer", [ALICE, FRONT])
@pytest.mark.parametrize(
    "trust", [ClientTrust(), ClientTrust(is_known=False), build_trust(OTHER_CLAIM)]
)
async def test_certificate_proves_no_caller_after_its_ca_was_removed(
    peer: Peer, trust: ClientTrust
) -> None:
    setup = Setup()
    recheck = await rechecked(setup, peer, FOR_CAROL)

    setup.reloader.trust = trust

    assert not recheck()


async def test_certificate_proves_no_caller_after_it_expired() -> None:
    setup = Setup()
    recheck = await rechecked(setup, ALICE, [])

    setup.now += timedelta(days=3650)

    assert not recheck()


async def test_headers_of_a_front_proxy_name_another_caller_by_other_names() -> None:
    setup = Setup()
    headers = [*FOR_CAROL, (b"X-Other-User", b"dave")]
    recheck = await rechecked(setup, FRONT, headers)
    names = replace(NAMES, user=(b"x-other-user",))

    setup.reloader.trust = build_trust(
        replace(BOTH_CLAIM, front_proxy=replace(FRONT_PROXY_CLAIM, headers=names))
    )

    assert not recheck()


@pytest.mark.parametrize("peer", [WITHOUT, STRANGER])
async def test_token_proves_no_caller_after_its_review_expired(peer: Peer) -> None:
    tokens = Tokens()
    recheck = await rechecked(Setup(tokens=tokens), peer, GOOD_TOKEN)

    tokens.is_cached = False

    assert not recheck()


async def test_certificate_comes_before_the_token_as_soon_as_its_ca_is_trusted() -> None:
    setup = Setup(trust=ClientTrust())
    recheck = await rechecked(setup, ALICE, GOOD_TOKEN)

    setup.reloader.trust = ONLY_CLIENTS

    assert not recheck()


async def test_certificate_that_is_rejected_with_an_error_proves_nothing_again() -> None:
    unforwardable = peer(CLIENTS.issue((CN, "al\nice")))
    setup = Setup(trust=ClientTrust())
    recheck = await rechecked(setup, unforwardable, GOOD_TOKEN)

    setup.reloader.trust = ONLY_CLIENTS

    assert not recheck()


async def test_anonymous_request_is_authenticated_each_time() -> None:
    assert (await Setup(anonymous=ANYWHERE).authenticate(WITHOUT, [])).recheck is None


async def test_websocket_token_is_authenticated_each_time() -> None:
    result = await Setup().authenticate(WITHOUT, GOOD_PROTOCOL, upgrade=b"websocket")

    assert result == (Caller(UserInfo("bob")), None)
