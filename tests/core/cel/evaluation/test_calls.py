import pytest

from proxy.core.cel.evaluation.calls import call
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ("object.a + object.zz", "no such key: zz", 5),
        ("object.zz + object.a", "no such key: zz", 5),
        ("object.zz == object.yy", "no such key: zz", 5),
        ("object.a == object.zz", "no such key: zz", 5),
        ('object.s != "x"', False, 3),
        ("size(object.zz)", "no such key: zz", 3),
        ('object.s.replace(object.zz, "")', "no such key: zz", 4),
        ('object.s.replace("x", object.zz)', "no such key: zz", 5),
        ("object.zz.format([1])", "no such key: zz", 2),
        ("string(object.l)", "no such overload: string(list)", 3),
        ('object.s.indexOf("x")', 0, 2),
        ("object.l.indexOf(2)", 1, 5),
        ("object.m.sum()", "no such overload: sum(map)", 2),
        ("[1].sum()", 1, 1),
        ('dyn(["a"]).sum()', "no such overload: sum(list)", 0),
        ("object.l.sum()", 6, 5),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


def test_a_call_of_the_authorizer_library_has_no_overload_at_run_time() -> None:
    assert call("allowed", ("decision_allowed",), ()) is not None
    assert outcome("object.a.allowed()").error == "no such overload: allowed(int)"
