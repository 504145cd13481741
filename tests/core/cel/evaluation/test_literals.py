import pytest

from proxy.core.cel.evaluation.literals import membership_step
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ("[object.a]", [1], 12),
        ("[1, 2]", [1, 2], 0),
        ('{"a": object.a}', {"a": 1}, 32),
        ("[?optional.of(object.a), ?optional.none()]", [1], 14),
        ('{?"a": optional.none(), ?"b": optional.of(1)}', {"b": 1}, 32),
        ('object.s in ["x"]', True, 2),
        ("object.a in [2.0, 1.0]", True, 2),
        ("object.a in []", False, 0),
        ("object.n in [1]", False, 2),
        ("object.s in [null]", False, 3),
        ("object.s in object.l", False, 5),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


def test_bytes_in_a_set_of_constants_end_the_evaluation() -> None:
    assert membership_step(lambda _: b"a", [None]) is None
    found = outcome('dyn(b"a") in ["a"] || true')
    assert found.error is not None
    assert found.error.startswith("internal error")
