from proxy.core.authorization.access_check import AccessCheck
from proxy.core.gocompat.quote import LONGEST_SHOWN, MARKER, cut_text
from proxy.core.impersonation.evaluation import Denied, forbidden_error
from proxy.core.userinfo import UserInfo


def test_text_of_the_longest_shown_length_is_kept() -> None:
    assert cut_text("a" * LONGEST_SHOWN) == "a" * LONGEST_SHOWN


def test_longer_text_is_cut_and_marked() -> None:
    assert cut_text("a" * (LONGEST_SHOWN + 1)) == "a" * LONGEST_SHOWN + MARKER


def test_denial_of_a_long_name_is_short() -> None:
    check = AccessCheck(UserInfo("u" * 9000), "get", resource="pods", name="n" * 9000)

    error = forbidden_error(Denied(check, ""))

    assert len(error.message) < 4 * LONGEST_SHOWN
    assert error.details == {"name": "n" * LONGEST_SHOWN + MARKER, "kind": "pods"}
