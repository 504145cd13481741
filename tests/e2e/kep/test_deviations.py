"""Where we mean to differ from the native server: each letter of the list in the conformance map.

Every test shows both sides: what the native server does, and what we do instead.
"""

from collections.abc import Sequence
from http.client import HTTPException

import pytest

from proxy.sandbox.api_client import ApiConnection, APIResponse, Headers
from proxy.sandbox.identities import BearerToken, Credential
from proxy.sandbox.proxy_rbac import ALL_EXTRAS, REVIEWER_NAME, forwarder_name
from tests.e2e.kep.cast import Cast
from tests.e2e.kep.understudy import Understudy
from tests.support.impersonation import (
    Caller,
    Doors,
    Header,
    Rights,
    as_user,
    may_impersonate,
    message_of,
)

VERSION = "/version"
OWN_NAMES = (REVIEWER_NAME, forwarder_name([ALL_EXTRAS]))


@pytest.fixture
def former(cast: Cast, rights: Rights) -> Caller:
    """May impersonate anybody without limit, so that natively nothing is refused."""
    caller = cast.user("former")
    kinds = ("users", "groups", "uids", "userextras/acme.io/key")
    rights.grant(caller, *(may_impersonate(kind) for kind in kinds))
    return caller


def at_both(
    doors: Doors,
    credential: Credential,
    headers: Headers,
    *,
    method: str = "GET",
    target: str = VERSION,
) -> tuple[APIResponse, APIResponse]:
    """Return our answer and the native one, which may differ."""
    ours, native = (
        door(credential).request(method, target, headers=headers)
        for door in (doors.ours, doors.native)
    )
    return ours, native


@pytest.mark.parametrize(
    "headers",
    [
        [*as_user("bob"), ("Impersonate-User", "alice")],
        [*as_user("bob", uid="1"), ("Impersonate-Uid", "2")],
        [("Audit-ID", "one"), ("Audit-ID", "two")],
    ],
    ids=["user", "uid", "audit id"],
)
def test_a_a_second_value_is_refused_where_the_native_server_takes_the_first(
    headers: list[Header], former: Caller, doors: Doors
) -> None:
    ours, native = at_both(doors, former.credential, headers)

    assert native.status == 200
    assert ours.status == 400
    assert message_of(ours).startswith("more than one")


def test_a_a_second_authorization_is_refused_where_the_native_server_takes_the_first(
    cast: Cast, doors: Doors
) -> None:
    robot = cast.service_account()
    assert isinstance(robot.credential, BearerToken)
    values = (robot.credential.value, "another")

    ours, native = at_both(doors, None, [("Authorization", f"Bearer {each}") for each in values])

    assert native.status == 200
    assert ours.status == 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"Impersonate-User", b"bob\xff"),
        (b"Impersonate-Group", b"d\xffv"),
        (b"Impersonate-Group", b"one\ttwo"),
        (b"Impersonate-Extra-acme.io%2fkey", b"\xc3"),
    ],
    ids=["user not UTF-8", "group not UTF-8", "control character", "extra not UTF-8"],
)
def test_b_a_text_that_would_not_arrive_unchanged_is_refused(
    name: bytes, value: bytes, former: Caller, doors: Doors
) -> None:
    user = [] if name == b"Impersonate-User" else [(b"Impersonate-User", b"bob")]

    ours, native = at_both(doors, former.credential, [*user, (name, value)])

    assert native.status == 200
    assert ours.status == 400


def test_b_a_caller_whose_name_would_not_arrive_unchanged_is_refused(
    cast: Cast, doors: Doors
) -> None:
    """Blanks around a value are lost in a header, so they can only come with a certificate."""
    ours, native = at_both(doors, cast.named(" padded ").credential, [])

    assert native.status == 200
    assert ours.status == 403
    assert "leading or trailing spaces" in message_of(ours)


@pytest.mark.parametrize("name", ["Impersonate-Name", "Impersonate", "Impersonate_User"])
def test_c_an_unknown_impersonation_header_is_refused_where_the_native_server_ignores_it(
    name: str, former: Caller, doors: Doors
) -> None:
    ours, native = at_both(doors, former.credential, [*as_user("bob"), (name, "root")])

    assert native.status == 200
    assert ours.status == 400
    assert message_of(ours).startswith("unknown impersonation header")


def test_d_a_protected_group_is_refused_in_legacy_too(former: Caller, doors: Doors) -> None:
    # A node with a group is left to legacy alone, so that the reason told is legacy's.
    headers = as_user("system:node:somewhere", groups=["system:masters"])

    ours, native = at_both(doors, former.credential, headers)

    assert native.status == 200
    assert ours.status == 403
    assert message_of(ours).endswith("impersonating the system:masters group is not allowed")


def test_d_a_caller_of_a_protected_group_does_not_act_as_itself(cast: Cast, doors: Doors) -> None:
    administrator = cast.user("administrator", groups=["system:masters"])

    ours, native = at_both(doors, administrator.credential, [])

    assert native.status == 200
    assert ours.status == 403
    assert message_of(ours) == "acting with the protected group system:masters is not allowed"


def test_d_without_protected_groups_we_do_as_the_native_server(
    former: Caller, cast: Cast, doors: Doors, understudy: Understudy
) -> None:
    administrator = cast.user("administrator", groups=["system:masters"])

    understudy.reload(protectedGroups=[])
    try:
        impersonated = doors.ask(
            former, "GET", "/api/v1/nodes", as_user("bob", groups=["system:masters"])
        )
        itself = doors.ask(administrator, "GET", "/api/v1/nodes")
    finally:
        understudy.reload()

    assert (impersonated.status, itself.status) == (200, 200)


@pytest.mark.parametrize("name", OWN_NAMES)
def test_e_nobody_becomes_the_proxy(former: Caller, doors: Doors, name: str) -> None:
    ours, native = at_both(doors, former.credential, as_user(name))

    assert native.status == 200
    assert ours.status == 403
    assert message_of(ours) == "impersonating the proxy's own identity is not allowed"


@pytest.mark.parametrize("name", OWN_NAMES)
def test_e_the_proxy_is_not_its_own_client(cast: Cast, doors: Doors, name: str) -> None:
    ours, native = at_both(doors, cast.named(name).credential, [])

    assert native.status == 200
    assert ours.status == 403
    assert message_of(ours) == "requests from the proxy's own identity are not served"


@pytest.mark.parametrize(
    "headers",
    [
        as_user("bob", groups=["dev"] * 1001),
        as_user("bob", extra=[("acme.io%2fkey", "value")] * 1001),
        as_user("b" * (64 * 1024 + 1)),
    ],
    ids=["groups", "extra values", "a long value"],
)
def test_f_more_identity_than_the_caps_allow_is_refused(
    headers: list[Header], former: Caller, doors: Doors
) -> None:
    ours, native = at_both(doors, former.credential, headers)

    assert native.status == 200
    assert ours.status == 400
    assert "more than" in message_of(ours)


def test_o_a_request_whose_review_would_be_too_large_is_refused(
    former: Caller, doors: Doors, understudy: Understudy
) -> None:
    target = f"/api/v1/namespaces/default/pods/{'p' * 20_000}"

    # A target of the default size cannot reach the default limit with a caller of few groups.
    understudy.reload(reviews={"documentBytes": 16_384})
    try:
        ours, native = at_both(doors, former.credential, as_user("bob"), target=target)
    finally:
        understudy.reload()

    assert native.status == 403
    assert 'User "bob" cannot get' in message_of(native)
    assert ours.status == 400
    assert "more than 16384 bytes" in message_of(ours)


DOUBTFUL = {
    "absolute form": ("GET", "http://127.0.0.1/version"),
    "fragment": ("GET", "/version#fragment"),
    "asterisk": ("OPTIONS", "*"),
    "method in lower case": ("get", "/version"),
    "unknown method": ("QUERY", "/version"),
    "path not UTF-8": ("GET", "/api/v1/namespaces/%ff"),
    "control character in the path": ("GET", "/api/v1/namespaces/%0a"),
}


@pytest.mark.parametrize(("method", "target"), DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_g_a_request_that_two_readers_could_read_differently_is_refused(
    method: str, target: str, former: Caller, doors: Doors
) -> None:
    ours, native = at_both(doors, former.credential, [], method=method, target=target)

    assert native.status != 400
    assert ours.status == 400


@pytest.mark.parametrize("second", [("Transfer-Encoding", "chunked"), ("Content-Length", "5")])
def test_g_a_body_whose_end_two_readers_could_see_differently_is_refused(
    second: Header, former: Caller, doors: Doors
) -> None:
    headers = [("Content-Length", "5"), second]

    ours, native = (
        door(former.credential).request("GET", VERSION, headers=headers, body=b"0\r\n\r\n")
        for door in (doors.ours, doors.native)
    )

    assert native.status == 200
    assert ours.status == 400


@pytest.mark.parametrize("media_type", ["application/yaml", "application/vnd.kubernetes.protobuf"])
def test_i_a_refusal_is_json_where_the_native_server_would_negotiate(
    media_type: str, cast: Cast, doors: Doors
) -> None:
    headers = [*as_user("bob"), ("Accept", media_type)]

    ours, native = at_both(doors, cast.user().credential, headers)

    assert (ours.status, native.status) == (403, 403)
    assert native.header("Content-Type") == media_type
    assert ours.header("Content-Type") == "application/json"
    assert message_of(ours).encode() in native.body.replace(b"\\", b"")


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (f"{VERSION}?pretty=1", []),
        (VERSION, [("User-Agent", "curl/8")]),
        (VERSION, [("Accept", "application/json;pretty=1")]),
        (VERSION, [("Accept", "text/html")]),
    ],
    ids=["query", "curl", "accept", "unknown type"],
)
def test_i_the_rules_for_indented_json_are_kept(
    target: str, headers: Sequence[Header], cast: Cast, doors: Doors
) -> None:
    response = doors.ask(cast.user(), "GET", target, [*as_user("bob"), *headers])

    assert response.body.startswith(b'{\n  "kind": "Status"')


def test_j_a_refused_upgrade_ends_the_connection(cast: Cast, doors: Doors) -> None:
    caller = cast.user()
    upgrade = [
        *as_user("bob"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    path = "/api/v1/namespaces/default/pods/x/exec?command=id"

    with doors.ours(caller.credential).connect() as connection:
        ours = connection.request("GET", path, headers=upgrade)
        assert not is_open(connection)
    with doors.native(caller.credential).connect() as connection:
        native = connection.request("GET", path, headers=upgrade)
        assert is_open(connection)

    assert (ours.status, ours.body) == (native.status, native.body)
    assert ours.status == 403


def is_open(connection: ApiConnection) -> bool:
    """Tell whether a second request on the connection is answered."""
    try:
        return connection.request("GET", VERSION).status == 200
    except (OSError, HTTPException):
        return False


COSTLY: dict[str, tuple[str, list[Header], int]] = {
    "selector terms": ("/api/v1/pods?labelSelector=" + "a," * 1000 + "a", [], 400),
    "timeout": ("/version?timeout=" + "1ns" * 100, [], 400),
    "connection options": (VERSION, [("Connection", "a," * 100 + "a")], 400),
    "header lines": (VERSION, [("X-Line", "a")] * 1200, 431),
    "header line": (VERSION, [("X-Line", "a" * 131_072)], 431),
    "target": (VERSION + "?" + "a" * 65_536, [], 414),
}


@pytest.mark.parametrize(("target", "headers", "status"), COSTLY.values(), ids=COSTLY.keys())
def test_k_what_costs_more_than_its_bytes_is_refused(
    target: str, headers: list[Header], status: int, former: Caller, doors: Doors
) -> None:
    ours, native = at_both(doors, former.credential, headers, target=target)

    assert native.status not in {400, 414, 431}
    assert ours.status == status


def test_l_a_long_text_is_cut_in_a_message(cast: Cast, doors: Doors) -> None:
    target = f"/api/v1/namespaces/{'n' * 2000}/pods"
    powerless = cast.user("powerless")

    ours, native = at_both(doors, powerless.credential, as_user("bob"), target=target)

    assert native.status == ours.status == 403
    assert "n" * 2000 in message_of(native)
    assert "n" * 1024 + "...TRUNCATED" in message_of(ours)
    assert "n" * 1025 not in message_of(ours)


def test_r_a_denied_discovery_request_has_a_warning(cast: Cast, doors: Doors) -> None:
    caller = cast.user("fresh")

    for target, is_warned in (("/api", True), ("/version", True), ("/api/v1/pods", False)):
        ours, native = at_both(doors, caller.credential, as_user("alice"), target=target)

        assert (ours.status, ours.body) == (native.status, native.body)
        assert native.header("Warning") is None
        warning = ours.header("Warning") or ""
        assert bool(warning) is is_warned, target
        if is_warned:
            assert warning.startswith('299 - "understudy: ')
            assert f'cannot impersonate-on:user-info:get path \\"{target}\\"' in warning
            assert warning.endswith(f'; Audit-Id {ours.header("Audit-Id")}"')
