import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.lists import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("[1, 2, 3].slice(1, 2)", [2]),
        ("[[1], [2]].flatten()", [1, 2]),
        ("[[[1]]].flatten(2)", [1]),
        ("[[[1]]].flatten(0)", [[[1]]]),
        ("[3, 1, 2].sort()", [1, 2, 3]),
        ('["b", "a"].sortBy(x, x)', ["a", "b"]),
        ("lists.range(3)", [0, 1, 2]),
        ("[1, 1, 2].distinct()", [1, 2]),
        ("[1, 2].reverse()", [2, 1]),
        ("[1, 2].isSorted()", True),
        ("[2, 1].isSorted()", False),
        ("[1, 3, 2].max()", 3),
        ("[2, 1].min()", 1),
        ("[1, 2].sum()", 3),
        ("[1, 2, 1].indexOf(1)", 0),
        ("[1, 2, 1].lastIndexOf(1)", 2),
        ("[1].indexOf(5)", -1),
        ("[1].lastIndexOf(5)", -1),
        ("object.l.includes(2)", True),
        ("object.a.includes(1)", True),
        ("[].sort() == []", True),
        ('[double("NaN"), 1.0].max() == 1.0', False),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[1].slice(-1, 0)", "negative indexes"),
        ("[1].slice(1, 0)", "less than or equal"),
        ("[1].slice(0, 2)", "list is length 1"),
        ("[[1]].flatten(-1)", "level must be non-negative"),
        ("[].max()", "max called on empty list"),
        ("lists.range(-1)", "must be non-negative"),
        ("lists.range(1000001)", "exceeds maximum allowed"),
        ("dyn([[1], [2]]).sort()", "must be comparable"),
        ('dyn(object.l + ["a"]).sort()', "must have the same type"),
        ("object.a.sort()", "no such overload"),
        ("object.a.flatten()", "no such overload"),
        ("object.a.sortBy(x, x)", "expected iterable type"),
        ("dyn(object.l.map(x, [x])).max()", "no such overload"),
        ("dyn(object.l.map(x, [x])).isSorted()", "no such overload"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
