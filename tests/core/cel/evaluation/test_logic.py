import pytest

from proxy.core.cel.evaluation.logic import logical
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ("object.zz && false", False, 2),
        ("false && object.zz", False, 0),
        ("object.zz || true", True, 2),
        ("object.zz && true", "no such key: zz", 2),
        ("object.a || true", True, 2),
        ("object.a && true", "no such overload", 2),
        ("true && object.a", "no such overload", 2),
        ("object.zz && object.yy", "no such key: zz", 4),
        ("!object.a", "no such overload", 3),
        ("!object.t", False, 3),
        ("!(!object.t)", True, 4),
        ("object.zz || object.zz || true", True, 4),
        ("true && true && object.zz", "no such key: zz", 2),
        ("false || false || object.a", "no such overload", 2),
        ("object.?zz.orValue(3)", 3, 1),
        ("object.?a.or(optional.none()).value()", 1, 3),
        ("object.a.or(object.a)", "no such overload", 2),
        ("true || false || object.zz", True, 0),
        ("false || false || false", False, 0),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


def test_two_and_more_terms_have_the_same_meaning() -> None:
    assert logical((lambda _: True, lambda _: False), deciding=False) is not None
    assert outcome("(object.zz || true) && true").value is True
