import pytest

from proxy.core.errors import Forbidden
from proxy.core.http.headers import (
    check_caller_forwardable,
    check_header_safe,
    unsafe_key_reason,
    unsafe_text_reason,
)
from proxy.core.userinfo import UserInfo


@pytest.mark.parametrize("byte", range(256))
def test_no_single_byte_can_turn_a_group_into_another_unseen(byte: int) -> None:
    group = (b"system:masters" + bytes([byte])).decode("utf-8", "surrogateescape")
    is_visible = 0x21 <= byte <= 0x7E

    assert (unsafe_text_reason(group) is None) == is_visible


@pytest.mark.parametrize("text", ["", "a", "a b", "é", "日本 語", "\x80", "\u2028", "a\u00a0"])
def test_a_text_that_survives_headers_and_json_is_safe(text: str) -> None:
    assert unsafe_text_reason(text) is None


def test_a_blank_is_safe_in_a_key_and_a_control_character_is_not() -> None:
    assert unsafe_key_reason(" a ") is None
    assert unsafe_key_reason("a\n") == "has control characters"


@pytest.mark.parametrize(
    "user",
    [
        UserInfo("alice", uid="1", groups=("", "a b"), extra=(("k", ("",)),)),
        UserInfo("ålice", extra=((" K/é", ("v",)),)),
        UserInfo("a b"),
    ],
)
def test_an_identity_that_survives_may_be_forwarded(user: UserInfo) -> None:
    check_header_safe(user)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (UserInfo(""), "an identity without a user name cannot be forwarded"),
        (UserInfo("a\r\nX-Remote-User: b"), "user name has control characters"),
        (UserInfo("admin "), "user name has leading or trailing spaces"),
        (UserInfo("a", uid="\udcff"), "uid is not valid UTF-8"),
        (UserInfo("a", groups=("b", " c")), "group has leading or trailing spaces"),
        (UserInfo("a", extra=(("k", ()),)), "extra key has no values"),
        (UserInfo("a", extra=(("k\0", ("v",)),)), "extra key has control characters"),
        (UserInfo("a", extra=(("k", ("v", "w\n")),)), "extra value has control characters"),
    ],
)
def test_an_identity_that_would_change_on_the_way_is_refused(user: UserInfo, message: str) -> None:
    with pytest.raises(Forbidden, match=message):
        check_header_safe(user)


def test_a_caller_called_anonymous_must_be_in_the_group_that_upstream_would_add() -> None:
    check_caller_forwardable(UserInfo("system:anonymous", groups=("a", "system:unauthenticated")))
    check_caller_forwardable(UserInfo("bob", groups=("a",)))
    for groups in ((), ("system:authenticated",)):
        with pytest.raises(Forbidden):
            check_caller_forwardable(UserInfo("system:anonymous", groups=groups))
    with pytest.raises(Forbidden):
        check_caller_forwardable(UserInfo("bob\n"))
