import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.sets_and_optionals import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("sets.contains([1, 2], [1])", True),
        ("sets.intersects([1], [2])", False),
        ("sets.equivalent([1, 1], [1])", True),
        ("optional.of(1).value()", 1),
        ("optional.ofNonZeroValue(0).hasValue()", False),
        ("optional.ofNonZeroValue(object.n).hasValue()", False),
        ("optional.ofNonZeroValue(1u).hasValue()", True),
        ("optional.ofNonZeroValue(optional.none()).hasValue()", False),
        ('optional.ofNonZeroValue(duration("0s")).hasValue()', False),
        ('optional.ofNonZeroValue(timestamp("0001-01-01T00:00:00Z")).hasValue()', False),
        ("optional.unwrap([optional.of(1), optional.none()])", [1]),
        ("[optional.of(1)].unwrapOpt()", [1]),
        ("[1, 2].first().value()", 1),
        ("[1, 2].last().value()", 2),
        ("[].first().hasValue()", False),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("optional.none().value()", "optional.none() dereference"),
        ("object.a.value()", "no such overload"),
        ("optional.unwrap([dyn(1)].map(x, x))", "no such overload"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
