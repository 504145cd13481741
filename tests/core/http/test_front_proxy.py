"""For whom a front proxy speaks, read as the API server reads it."""

import pytest

from proxy.core.http.front_proxy import FrontProxyHeaderNames, parse_front_proxy_user
from proxy.core.http.headers import Header
from proxy.core.userinfo import UserInfo

NAMES = FrontProxyHeaderNames(
    (b"x-remote-user",), (b"x-remote-uid",), (b"x-remote-group",), (b"x-extra-",)
)
SEVERAL = FrontProxyHeaderNames(
    (b"x-a", b"x-b"), (b"x-u", b"x-v"), (b"x-g", b"x-h"), (b"x-e-", b"x-f-")
)
ALICE = (b"X-Remote-User", b"alice")
LOGGED_IN = ("system:authenticated",)


def read(*headers: Header, names: FrontProxyHeaderNames = NAMES) -> UserInfo | None:
    return parse_front_proxy_user(headers, names)


def test_everything_can_be_said() -> None:
    user = read(
        (b"x-remote-user", b"alice"),
        (b"X-Remote-Uid", b"7"),
        (b"X-REMOTE-GROUP", b"b"),
        (b"X-Remote-Group", b"a"),
        (b"X-Remote-Group", b"b"),
        (b"X-Extra-Example.com%2fKey", b"1"),
        (b"X-Extra-%4dixed", b"x"),
        (b"X-Extra-Example.com%2Fkey", b""),
        (b"X-Other", b"nothing"),
    )

    assert user == UserInfo(
        name="alice",
        uid="7",
        groups=("b", "a", "b", "system:authenticated"),
        extra=(("Mixed", ("x",)), ("example.com/key", ("1", ""))),
    )


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"X-Remote-User", b"")],
        [(b"X-Remote-User", b""), ALICE],
        [(b"X-Remote-Group", b"a"), (b"X-Remote-Uid", b"7")],
        [(b"X_Remote_User", b"alice")],
        [(b"X-Remote-Users", b"alice")],
    ],
    ids=["nothing", "empty", "empty first", "only others", "a look-alike", "another"],
)
def test_without_a_user_nobody_is_spoken_for(headers: list[Header]) -> None:
    assert read(*headers) is None


def test_of_several_lines_of_one_name_the_first_counts() -> None:
    user = read(ALICE, (b"X-Remote-User", b"bob"), (b"X-Remote-Uid", b""), (b"X-Remote-Uid", b"7"))

    assert user == UserInfo("alice", groups=LOGGED_IN)


def test_of_several_names_the_first_that_has_a_value_counts() -> None:
    user = read((b"X-B", b"bob"), (b"X-A", b""), (b"X-V", b"2"), names=SEVERAL)

    assert user == UserInfo("bob", uid="2", groups=LOGGED_IN)


def test_groups_and_extras_of_all_names_count_in_the_order_of_the_names() -> None:
    user = read(
        (b"X-H", b"3"),
        (b"X-A", b"alice"),
        (b"X-G", b"1"),
        (b"X-G", b""),
        (b"X-F-k", b"z"),
        (b"X-E-k", b"y"),
        names=SEVERAL,
    )

    assert user == UserInfo("alice", groups=("1", "3", *LOGGED_IN), extra=(("k", ("y", "z")),))


def test_a_key_that_cannot_be_decoded_is_taken_as_it_stands() -> None:
    user = read(ALICE, (b"X-Extra-A%zz", b"v"))

    assert user is not None
    assert user.extra == (("a%zz", ("v",)),)


def test_groups_that_say_whether_somebody_has_logged_in_are_kept() -> None:
    for group in ("system:authenticated", "system:unauthenticated"):
        user = read(ALICE, (b"X-Remote-Group", group.encode()))
        assert user is not None
        assert user.groups == (group,)


def test_who_is_called_anonymous_is_not_thereby_authenticated() -> None:
    user = read((b"X-Remote-User", b"system:anonymous"))

    assert user == UserInfo("system:anonymous")


def test_bytes_that_are_not_text_are_not_lost() -> None:
    """So that whoever checks the identity sees them, and refuses it."""
    user = read((b"X-Remote-User", b"alice\xff"))

    assert user is not None
    assert user.name == "alice\udcff"


def test_names_are_told_for_those_who_strip_them() -> None:
    assert SEVERAL.names == {b"x-a", b"x-b", b"x-u", b"x-v", b"x-g", b"x-h"}
