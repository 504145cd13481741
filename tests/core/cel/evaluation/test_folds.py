import pytest

from proxy.core.cel.evaluation.folds import Pending
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ("object.l.map(x, x)", [1, 2, 3], 42),
        ("object.l.exists_one(x, x == 1)", True, 12),
        ("object.l.filter(x, x > 1)", [2, 3], 35),
        ("object.l.all(x, x > 0)", True, 18),
        ('object.m.all(k, k == "k")', True, 8),
        ("object.a.all(x, true)", "got 'int', expected iterable type", 2),
        ("object.a.all(x, y, true)", "unsupported comprehension range type: int", 2),
        ("object.m.transformList(k, v, v)", ["v"], 16),
        ("object.l.transformList(i, v, i)", [0, 1, 2], 42),
        ("object.l.map(x, x / 0)", "division by zero", 45),
        ("[1].map(x, 1)", [1], 3),
        ("optional.of(object.a).optMap(x, 2).value()", 2, 6),
        ("object.l.exists(x, x / 0 > 0)", "division by zero", 24),
        ("object.m.map(k, k)", ["k"], 16),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


def test_a_pending_value_is_computed_once() -> None:
    assert Pending(lambda _: 1).compute is not None
    assert (
        outcome("optional.of(object.l.map(x, x)).optMap(y, size(y) + size(y)).value()").value == 6
    )
