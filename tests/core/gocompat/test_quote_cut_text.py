from proxy.core.authorization.access_check import AccessCheck
from proxy.core.gocompat.quote import MAX_SHOWN_LENGTH, TRUNCATION_MARKER, truncate_text
from proxy.core.impersonation.evaluation import Denied, forbidden_error
from proxy.core.userinfo import UserInfo


def test_text_of_the_longest_shown_length_is_kept() -> None:
    assert truncate_text("a" * MAX_SHOWN_LENGTH) == "a" * MAX_SHOWN_LENGTH


def test_longer_text_is_cut_and_marked() -> None:
    assert truncate_text("a" * (MAX_SHOWN_LENGTH + 1)) == "a" * MAX_SHOWN_LENGTH + TRUNCATION_MARKER


def test_denial_of_a_long_name_is_short() -> None:
    check = AccessCheck(UserInfo("u" * 9000), "get", resource="pods", name="n" * 9000)

    error = forbidden_error(Denied(check, ""))

    assert len(error.message) < 4 * MAX_SHOWN_LENGTH
    assert error.details == {"name": "n" * MAX_SHOWN_LENGTH + TRUNCATION_MARKER, "kind": "pods"}
