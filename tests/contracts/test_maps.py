"""The check at the end of a run of all tests: tests that documents rely on have passed."""

from tests.support.maps import MAPS, ROOT, named_tests, unshown_tests


def test_a_named_test_that_has_not_passed_is_found() -> None:
    named = {test for one in MAPS for test in named_tests((ROOT / one).read_text())}
    one = min(named)

    assert len(named) > 100
    assert unshown_tests(named) == []
    assert unshown_tests(named - {one}) == [one]
