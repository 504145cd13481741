"""Rights, as operators read them."""

import pytest

from proxy.core.selfcheck.permissions import (
    FORBIDDEN_PERMISSIONS,
    FORWARDING_PERMISSIONS,
    Permission,
    impersonation_permissions,
    token_request_permission,
)
from proxy.core.userinfo import UserInfo


@pytest.mark.parametrize(
    ("right", "text"),
    [
        (Permission("get", "secrets"), "get secrets"),
        (Permission("*", "*", "*"), "* *.*"),
        (
            Permission("impersonate", "userextras", "authentication.k8s.io", "a.b/c"),
            "impersonate userextras.authentication.k8s.io/a.b/c",
        ),
        (token_request_permission("ns", "account"), "create serviceaccounts/token ns/account"),
    ],
    ids=str,
)
def test_a_right_is_one_line(right: Permission, text: str) -> None:
    assert str(right) == text


def test_nothing_is_needed_and_dangerous_at_once() -> None:
    assert set(FORWARDING_PERMISSIONS).isdisjoint(FORBIDDEN_PERMISSIONS)


def test_extra_key_keeps_its_case() -> None:
    """The header encodes capitals, so the API server checks the key as it is written here."""
    user = UserInfo("alice", extra=(("accessKeyId", ("k1",)),))

    (_, (_, (right,))) = impersonation_permissions(user)

    assert (right.subresource, right.name) == ("accessKeyId", "k1")
