from proxy.core.authorization.access_check import AccessCheck
from proxy.core.gocompat.quote import LONGEST_SHOWN, MARKER, cut_text
from proxy.core.impersonation.evaluation import Denied, forbidden
from proxy.core.userinfo import Identity


def test_text_of_the_longest_shown_length_is_kept() -> None:
    assert cut_text("a" * LONGEST_SHOWN) == "a" * LONGEST_SHOWN


def test_longer_text_is_cut_and_marked() -> None:
    assert cut_text("a" * (LONGEST_SHOWN + 1)) == "a" * LONGEST_SHOWN + MARKER


def test_denial_of_a_long_name_is_short() -> None:
    check = AccessCheck(Identity("u" * 9000), "get", resource="pods", name="n" * 9000)

    refusal = forbidden(Denied(check, ""))

    assert len(refusal.message) < 4 * LONGEST_SHOWN
    assert refusal.details == {"name": "n" * LONGEST_SHOWN + MARKER, "kind": "pods"}
