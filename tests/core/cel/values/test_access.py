import pytest

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.values.access import contains, is_key, select, select_if_present, shown
from proxy.core.cel.values.kinds import UINT_MAX, Uint


@pytest.mark.parametrize(
    ("source", "key", "wanted"),
    [({"a": 1}, "a", 1), ([5, 6], 1, 6), ([5, 6], 1.0, 6), ([5, 6], Uint(0), 5)],
)
def test_members_are_selected(source: object, key: object, wanted: object) -> None:
    assert select(source, key) == wanted
    assert select_if_present(source, key) == (True, wanted)


@pytest.mark.parametrize(
    ("source", "key", "message"),
    [
        ({"a": 1}, "b", "no such key: b"),
        (None, "b", "no such key: b"),
        ("text", True, "no such key: true"),
        ([5], 1, "index out of bounds: 1"),
        ([5], "b", "unsupported index type 'string' in list"),
        ([5], 1.5, "unsupported index value 1.5 in list"),
        ([5], Uint(UINT_MAX), f"unsupported index value {UINT_MAX} in list"),
        ([5], Uint(7), "index out of bounds: 7"),
    ],
)
def test_what_is_not_there_is_an_error(source: object, key: object, message: str) -> None:
    with pytest.raises(CelEvaluationError) as caught:
        select(source, key)

    assert caught.value.message == message


def test_a_scalar_has_no_member_and_a_list_needs_a_number() -> None:
    assert select_if_present(1, "a") == (False, None)
    assert select_if_present([1], 5) == (False, None)
    with pytest.raises(CelEvaluationError):
        select_if_present([1], "a")


def test_keys_are_scalars() -> None:
    assert is_key("a")
    assert not is_key(None)
    assert shown(2.0) == "2"
    assert contains({"a": 1}, "a") is True
    assert contains([1], 1) is None
