import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.standard import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("1 in object.l", True),
        ('"k" in object.m', True),
        ("size(object.s) + size(object.l)", 4),
        ('object.s.contains("x")', True),
        ('"abc".startsWith("ab")', True),
        ('"abc".endsWith("bc")', True),
        ('"abc".matches(object.s)', False),
        ("type(object.a) == int", True),
        ("dyn(1) < 2.5", True),
        ("object.a >= 1", True),
        ("-object.a", -1),
        ("string(object.a)", "1"),
        ("[1] + [2]", [1, 2]),
        ("object.a <= 1", True),
        ("object.a > 1", False),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("size(object.a)", "no such overload: size"),
        ("1 in object.a", "no such overload"),
        ('object.a.startsWith("a")', "no such overload"),
        ('object.a.matches("a")', "no such overload"),
        (
            '{"a": 1, "b": 2}.transformMapEntry(k, v, {"c": v})',
            "insert failed: key c already exists",
        ),
        ("[1].transformMapEntry(i, v, object.a)", "no such overload"),
        ("string(object.l)", "no such overload: string(list)"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
