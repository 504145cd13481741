"""Tokens, front proxies and nobody in particular: both doors say the same of them."""

import pytest

from proxy.sandbox.control_plane import FRONT_PROXY_NAME
from tests.support.auth_methods import Lines, Stage, bearer
from tests.support.chains import CN, Issuer

pytestmark = pytest.mark.timeout(90)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("of a service account", 201),
        ("bound to a pod", 201),
        ("of a user", 201),
        ("of a user without groups", 201),
        ("for somebody else", 401),
        ("nobody's", 401),
        ("cut", 401),
    ],
)
def test_a_token_is_the_same_user(stage: Stage, name: str, status: int) -> None:
    ours, native = stage.both(stage.tokens[name])

    assert ours == native
    assert native[0] == status


def test_a_good_certificate_comes_before_any_token(stage: Stage) -> None:
    for token in ("of a service account", "nobody's"):
        ours, native = stage.both(
            stage.clients.issue((CN, "dave")).key_pair, (bearer(stage, token),)
        )

        assert ours == native
        assert native[1]["username"] == "dave"


SPOKEN_FOR: dict[str, Lines] = {
    "a user": (("X-Remote-User", "bob"),),
    "all of a user": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Key", "1"),
        ("X-Remote-Extra-Key", "2"),
        ("X-Remote-Extra-example.com%2Fscope", "all"),
    ),
    "odd keys": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Extra-%4dixed.Example%2f%4bey", "x"),
        ("X-Remote-Extra-broken%zz", "y"),
        ("X-Remote-Extra-plus+", "z"),
    ),
    "empty values": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Group", ""),
        ("X-Remote-Group", "a"),
        ("X-Remote-Extra-Key", ""),
        ("X-Remote-Uid", ""),
        ("X-Remote-Uid", "7"),
    ),
    "two users": (("X-Remote-User", "bob"), ("X-Remote-User", "carol")),
    "another script": (("X-Remote-User", "Ünï"), ("X-Remote-Group", "グ")),
    "look-alikes": (("X-Remote-User", "bob"), ("X_Remote_Group", "a"), ("X-Remote-Groups", "b")),
    "a service account": (
        ("X-Remote-User", "system:serviceaccount:callers:agent"),
        ("X-Remote-Group", "system:serviceaccounts"),
        ("X-Remote-Extra-authentication.kubernetes.io%2Fnode-name", "node-1"),
    ),
    "somebody unauthenticated": (
        ("X-Remote-User", "bob"),
        ("X-Remote-Group", "system:unauthenticated"),
    ),
    "anonymous": (
        ("X-Remote-User", "system:anonymous"),
        ("X-Remote-Group", "system:unauthenticated"),
    ),
}


def utf8(lines: Lines) -> Lines:
    return tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in lines
    )


@pytest.mark.parametrize("lines", SPOKEN_FOR.values(), ids=SPOKEN_FOR)
def test_a_front_proxy_speaks_for_the_same_user(stage: Stage, lines: Lines) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair

    ours, native = stage.both(front_proxy, utf8(lines))

    assert ours == native
    assert native[0] == 201


@pytest.mark.parametrize(
    ("issuer", "name", "lines", "status"),
    [
        ("front", FRONT_PROXY_NAME, (), 401),
        ("front", FRONT_PROXY_NAME, (("X-Remote-User", ""),), 401),
        ("front", FRONT_PROXY_NAME, (("X-Remote-User", ""), ("X-Remote-User", "bob")), 401),
        ("front", FRONT_PROXY_NAME, (("X_Remote_User", "bob"),), 401),
        ("front", FRONT_PROXY_NAME, (("X-Remote-Group", "a"),), 401),
        ("front", "another", (("X-Remote-User", "bob"),), 401),
        ("clients", "alice", (("X-Remote-User", "bob"),), 201),
        ("clients", FRONT_PROXY_NAME, (("X-Remote-User", "bob"),), 201),
        ("stranger", FRONT_PROXY_NAME, (("X-Remote-User", "bob"),), 401),
    ],
    ids=[
        "silent",
        "an empty user",
        "an empty user first",
        "a look-alike",
        "only a group",
        "a name that is not allowed",
        "a user",
        "a user of its name",
        "a stranger of its name",
    ],
)
def test_whoever_else_says_so_speaks_for_nobody(
    stage: Stage, issuer: str, name: str, lines: Lines, status: int
) -> None:
    issuers = {
        "front": stage.front_proxies,
        "clients": stage.clients,
        "stranger": Issuer(stage.front_proxies.name),
    }
    credential = issuers[issuer].issue((CN, name)).key_pair

    for headers in (lines, (*lines, bearer(stage, "bound to a pod"))):
        ours, native = stage.both(credential, headers)
        assert ours == native
        if headers == lines:
            assert native[0] == status
        if native[0] == 201:
            assert native[1]["username"] != "bob"


def test_a_front_proxy_s_word_comes_before_a_token(stage: Stage) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair

    ours, native = stage.both(front_proxy, (("X-Remote-User", "bob"), bearer(stage, "of a user")))

    assert ours == native
    assert native[1]["username"] == "bob"


def test_bytes_that_are_no_text_are_refused_from_a_front_proxy(stage: Stage) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair

    ours, native = stage.both(
        front_proxy, ((b"X-Remote-User", b"bob"), (b"X-Remote-Group", b"system:masters\xff"))
    )

    assert native[0] == 201
    assert ours[0] == 403


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/livez", 200),
        ("/livez?verbose", 200),
        ("/healthz", 200),
        ("/live%7a", 200),
        ("/livez/", 401),
        ("/livez/ping", 401),
        ("/readyz", 401),
        ("/", 401),
        ("/api", 401),
        ("/version", 401),
    ],
)
def test_anybody_may_call_where_that_is_allowed_and_nowhere_else(
    stage: Stage, path: str, status: int
) -> None:
    ours, native = stage.both(None, method="GET", path=path)

    assert ours == native
    assert native[0] == status


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((("Authorization", "Basic YTpi"),), 200),
        ((("Authorization", "Bearer"),), 200),
        ((("X-Remote-User", "bob"),), 200),
        ((("Authorization", "Bearer nonsense"),), 401),
    ],
    ids=["another scheme", "no token", "headers", "a bad token"],
)
def test_a_bad_credential_is_not_anonymous_and_what_is_none_is(
    stage: Stage, lines: Lines, status: int
) -> None:
    ours, native = stage.both(None, lines, method="GET", path="/livez")

    assert ours == native
    assert native[0] == status


def test_impersonation_works_on_top_of_a_front_proxy_s_word(stage: Stage) -> None:
    front_proxy = stage.front_proxies.issue((CN, FRONT_PROXY_NAME)).key_pair
    lines = (("X-Remote-User", "bob"), ("Impersonate-User", "carol"))

    ours, native = stage.both(front_proxy, lines)

    assert ours == native
    assert native[0] == 403
    assert 'User "bob" cannot impersonate' in native[1]["message"]
