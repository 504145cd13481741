import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.strings import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('"héllo".charAt(1)', "é"),
        ('"abc".charAt(3)', ""),
        ('"abcb".indexOf("b")', 1),
        ('"abcb".indexOf("b", 2)', 3),
        ('"abc".indexOf("", 9)', 3),
        ('"abc".indexOf("a", 9)', -1),
        ('"abcb".lastIndexOf("b")', 3),
        ('"abcb".lastIndexOf("b", 2)', 1),
        ('"abc".lastIndexOf("")', 3),
        ('"abc".lastIndexOf("", 1)', 1),
        ('"abc".lastIndexOf("a", 5)', -1),
        ('"AbÉ".lowerAscii()', "abÉ"),
        ('"abé".upperAscii()', "ABé"),
        ('"aaa".replace("a", "b")', "bbb"),
        ('"aaa".replace("a", "b", 2)', "bba"),
        ('"aaa".replace("a", "b", 0)', "aaa"),
        ('"ab".replace("", "-")', "-a-b-"),
        ('"a,b,c".split(",")', ["a", "b", "c"]),
        ('"a,b,c".split(",", 2)', ["a", "b,c"]),
        ('"abc".split("")', ["a", "b", "c"]),
        ('"abc".split("", 2)', ["a", "bc"]),
        ('"abc".split(",", 0)', []),
        ('"abc".substring(1)', "bc"),
        ('"abc".substring(1, 2)', "b"),
        ('" a \\u00a0".trim()', "a"),
        ('["a", "b"].join()', "ab"),
        ('["a", "b"].join("-")', "a-b"),
        ('strings.quote("a\\n\\"")', '"a\\n\\""'),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('"abc".charAt(4)', "index out of range: 4"),
        ('"abc".indexOf("a", -1)', "index out of range: -1"),
        ('"abc".lastIndexOf("a", -1)', "index out of range: -1"),
        ('"abc".substring(4)', "index out of range: 4"),
        ('"abc".substring(2, 1)', "invalid substring range. start: 2, end: 1"),
        ('"abc".substring(1, 9)', "index out of range: 9"),
        ('(["a"].map(x, dyn(x)) + object.l).join()', "join: invalid input"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
