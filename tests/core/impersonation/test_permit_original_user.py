import pytest

from proxy.core.impersonation.permit import (
    GROUPS_KEY,
    NAME_KEY,
    UID_KEY,
    has_reserved_key,
    is_reserved_key,
    with_original_user,
)
from proxy.core.userinfo import Caller, UserInfo, make_extra


@pytest.mark.parametrize(
    ("key", "is_reserved"),
    [
        ("original-user.kube-understudy.io/name", True),
        ("original-user.kube-understudy.io/anything", True),
        ("original-user.kube-understudy.io", True),
        ("Original-User.Kube-Understudy.IO/name", True),
        ("original_user.kube-understudy.io/name", True),
        ("original-user.example.com/name", False),
        ("kube-understudy.io/original-user", False),
        ("", False),
    ],
)
def test_a_key_is_reserved_however_it_is_written(key: str, *, is_reserved: bool) -> None:
    user = UserInfo("bob", extra=make_extra({"a": ("b",), key: ("root",)}))

    assert is_reserved_key(key) is is_reserved
    assert has_reserved_key(user) is is_reserved


def test_the_caller_is_told_beside_what_was_wanted() -> None:
    caller = Caller(UserInfo("robot", uid="7", groups=("robots", "system:authenticated")))
    impersonated_user = UserInfo(
        "bob", groups=("dev",), extra=make_extra({"z": ("1",), "a": ("2",)})
    )

    told = with_original_user(impersonated_user, caller)

    assert (told.name, told.uid, told.groups) == ("bob", "", ("dev",))
    assert dict(told.extra) == {
        "a": ("2",),
        "z": ("1",),
        NAME_KEY: ("robot",),
        UID_KEY: ("7",),
        GROUPS_KEY: ("robots", "system:authenticated"),
    }


def test_what_the_caller_lacks_has_no_key() -> None:
    told = with_original_user(UserInfo("bob"), Caller(UserInfo("robot")))

    assert dict(told.extra) == {NAME_KEY: ("robot",)}
