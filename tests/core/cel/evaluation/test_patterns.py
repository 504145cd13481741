import pytest

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.evaluation.patterns import pattern_call
from tests.core.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("expression", "wanted", "cost"),
    [
        ('object.s.matches("x")', True, 3),
        ('object.zz.matches("x")', "no such key: zz", 2),
        ('object.s.findAll("x", object.zz)', "no such key: zz", 5),
        ('object.s.findAll("x", object.a)', ["x"], 5),
        ('object.a.find("x")', "no such overload", 3),
    ],
)
def test_values_errors_and_costs(expression: str, wanted: object, cost: int) -> None:
    found = outcome(expression)

    assert (found.value if found.error is None else found.error) == wanted
    assert found.cost == cost


def test_a_pattern_that_does_not_compile_is_refused_with_the_expression() -> None:
    with pytest.raises(CelCompileError, match="error parsing regexp"):
        pattern_call("find", "(", (), 0)
