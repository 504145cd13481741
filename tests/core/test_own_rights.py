"""Rights, as operators read them."""

import pytest

from proxy.core.own_rights import FORWARDING, NOBODY_NEEDS, Right, token_request


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
