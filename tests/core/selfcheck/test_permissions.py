"""Rights, as operators read them."""

import pytest

from proxy.core.selfcheck.permissions import (
    FORWARDING,
    NOBODY_NEEDS,
    Right,
    impersonating,
    token_request,
)
from proxy.core.userinfo import Identity


@pytest.mark.parametrize(
    ("right", "text"),
    [
        (Right("get", "secrets"), "get secrets"),
        (Right("*", "*", "*"), "* *.*"),
        (
            Right("impersonate", "userextras", "authentication.k8s.io", "a.b/c"),
            "impersonate userextras.authentication.k8s.io/a.b/c",
        ),
        (token_request("ns", "account"), "create serviceaccounts/token ns/account"),
    ],
    ids=str,
)
def test_a_right_is_one_line(right: Right, text: str) -> None:
    assert str(right) == text


def test_nothing_is_needed_and_dangerous_at_once() -> None:
    assert set(FORWARDING).isdisjoint(NOBODY_NEEDS)


def test_extra_key_keeps_its_case() -> None:
    """The header encodes capitals, so the API server checks the key as it is written here."""
    identity = Identity("alice", extra=(("accessKeyId", ("k1",)),))

    (_, (_, (right,))) = impersonating(identity)

    assert (right.subresource, right.name) == ("accessKeyId", "k1")
