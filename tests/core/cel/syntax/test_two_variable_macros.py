import pytest

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.two_variable_macros import TWO_VARIABLE_MACROS
from tests.core.cel.evaluating import value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[5, 6].all(i, v, i < v)", True),
        ("[5, 6].exists(i, v, i == 1 && v == 6)", True),
        ("[5, 6].existsOne(i, v, v > 5)", True),
        ("[5, 6].exists_one(i, v, v > 9)", False),
        ("[5, 6].transformList(i, v, i + v)", [5, 7]),
        ("[5, 6].transformList(i, v, i > 0, v)", [6]),
        ('{"a": 1}.transformMap(k, v, v + 1)', {"a": 2}),
        ('{"a": 1}.transformMap(k, v, v > 1, v)', {}),
        ('{"a": 1}.transformMapEntry(k, v, {v: k})', {1: "a"}),
    ],
)
def test_what_they_compute(text: str, wanted: object) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize(
    "text", ["[1].all(x, x, true)", "[1].all(1, x, true)", "[1].all(__result__, x, true)"]
)
def test_malformed_variables_are_refused(text: str) -> None:
    call = parse(text)

    with pytest.raises(CelCompileError):
        TWO_VARIABLE_MACROS["all", 3, True](call)  # type: ignore[arg-type]
