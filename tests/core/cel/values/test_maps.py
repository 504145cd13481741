import pytest

from proxy.core.cel.values.kinds import UINT_MAX, Uint
from proxy.core.cel.values.maps import find, key_value, stored_key


@pytest.mark.parametrize("key", ["a", 1, True, 1.5, Uint(2), None])
def test_a_key_is_found_again(key: object) -> None:
    assert find({stored_key(key): "x"}, key) == (True, "x")
    assert key_value(stored_key(key)) == key


def test_numbers_are_found_across_their_types_and_bools_are_not() -> None:
    assert find({1: "x"}, Uint(1)) == (True, "x")
    assert find({1: "x"}, 1.0) == (True, "x")
    assert find({stored_key(Uint(1)): "x"}, 1) == (True, "x")
    assert find({stored_key(1.0): "x"}, Uint(1)) == (True, "x")
    assert find({1: "x"}, bool(1))[0] is False
    assert find({1: "x"}, 1.5)[0] is False
    assert find({1: "x"}, -1)[0] is False
    assert find({1: "x"}, Uint(UINT_MAX))[0] is False
    assert find({1: "x"}, -1.0)[0] is False
    assert find({1: "x"}, 1e300)[0] is False


def test_a_list_is_never_found() -> None:
    assert find({stored_key([1]): "x"}, [1])[0] is False
    assert key_value(stored_key([1])) == [1]
