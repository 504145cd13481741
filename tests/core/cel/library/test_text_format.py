import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.text_format import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('"%s %d%%".format(["a", 3])', "a 3%"),
        ('"%.2f".format([1234.5])', "1,234.50"),
        ('"%e".format([1052.032911275])', "1.052033\u00d710\u2070\u00b3"),
        ('"%e".format([double("NaN")])', "   NaN"),
        ('"%f".format([-1.0 / 0.0])', "-\u221e"),
        ('"%x %X %o %b".format([255, 255, 8, 5])', "ff FF 10 101"),
        ('"%x".format(["é"])', "c3a9"),
        ('"%X".format([b"z"])', "7A"),
        ('"%b".format([true])', "1"),
        ('"%b".format([false])', "0"),
        ('"%d %o".format([7u, 8u])', "7 10"),
        ('"%s".format([[1, "a\\n", null, 1.5, b"b"]])', '[1, "a\\n", null, 1.500000, b"b"]'),
        ('"%s".format([{"b": 1, "a": 2}])', '{"a":2, "b":1}'),
        ('"%s".format([type(1)])', "int"),
        ('"%s".format([[duration("1s")]])', '[duration("1s")]'),
        ('"%s".format([[timestamp(0)]])', '[timestamp("1970-01-01T00:00:00Z")]'),
        ('"%s".format([[1.0 / 0.0]])', '["+Inf"]'),
        ('"%s".format([[double("NaN")]])', '["NaN"]'),
        ('"%s".format([{1: true}])', "{1:true}"),
        ('"%f".format(["Infinity"])', "\u221e"),
        ('"%s".format([["\\x01\\u200b\\U000e0001"]])', '["\\x01\\u200b\\U000e0001"]'),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('object.s.format([1]) + "%d".format([object.s])', "decimal clause"),
        ('"%f".format([object.a])', "fixed-point clause"),
        ('"%e".format([object.a])', "scientific clause"),
        ('"%x".format([object.t])', "formatted as hex"),
        ('"%b".format([object.s])', "as binary"),
        ('"%o".format([object.s])', "octal clause"),
        ('"%s".format([dyn(optional.none())])', "string clause"),
        ('(object.s + "%").format([1])', "unexpected end of string"),
        ('(object.s + "%q").format([1])', "unrecognized formatting clause"),
        ('(object.s + "%.f").format([1])', "parsing precision"),
        ('(object.s + "%s%s").format([1])', "index 1 out of range"),
        ('"%.99999f".format([1.0])', "exceeds the limit"),
        ('"%s".format([dyn({object.l: 1})])', "map key"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
