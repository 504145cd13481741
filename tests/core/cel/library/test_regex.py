import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.regex import OVERLOADS, compile_pattern, find_all
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('"abc".find("b.")', "bc"),
        ('"abc".find("z")', ""),
        ('"abcb".findAll("b")', ["b", "b"]),
        ('"abcb".findAll("b", 1)', ["b"]),
        ('"ab".find(object.s)', ""),
        ('"abx".findAll(object.s)', ["x"]),
        ('"xx".findAll(object.s, 1)', ["x"]),
        ('"xx".matches("^x+$")', True),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('"a".find(object.s + "(")', "error parsing regexp"),
        ('object.a.find("a")', "no such overload"),
        ('"a".findAll("a", object.s)', "no such overload"),
        ('object.a.matches("a")', "no such overload"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)


def test_an_empty_match_after_a_match_does_not_count() -> None:
    assert find_all(compile_pattern("a*"), "baaac", -1) == ["", "aaa", ""]


def test_a_catastrophic_pattern_takes_linear_time() -> None:
    assert compile_pattern("(a+)+$").search("a" * 50_000 + "b") is None
