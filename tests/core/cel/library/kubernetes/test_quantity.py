import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.kubernetes.quantity import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('quantity("1Ki") == quantity("1024")', True),
        ('quantity("1.5Gi").isGreaterThan(quantity("1G"))', True),
        ('quantity("100m").isInteger()', False),
        ('quantity("1k").asInteger()', 1000),
        ('quantity("100m").asApproximateFloat()', 0.1),
        ('sign(quantity("-1"))', -1),
        ('quantity("1").compareTo(quantity("2"))', -1),
        ('quantity("1").add(quantity("2")).asInteger()', 3),
        ('quantity("5").sub(2).asInteger()', 3),
        ('quantity("0").add(1).asInteger()', 1),
        ('isQuantity("1x")', False),
        ('isQuantity("1e3")', True),
        ('isQuantity("")', False),
        ('quantity("0.1n").asApproximateFloat()', 1e-9),
        ('quantity("10E").isInteger()', False),
        ('quantity("1Ei").isLessThan(quantity("2Ei"))', True),
        ('quantity("9223372036854775807").add(1).isInteger()', False),
        ('quantity("1.5Ki").asApproximateFloat()', 1536.0),
        ('isQuantity("1e9999")', False),
        ('quantity("-0.5Mi").isLessThan(quantity("0"))', True),
        ('quantity("1e400").asApproximateFloat() > 1.0', True),
        ('quantity("5").sub(quantity("0")).asInteger()', 5),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("quantity(object.s)", "quantities must match"),
        ('quantity("1Q" + object.s)', "quantities must match"),
        ('quantity("100m").asInteger()', "cannot convert value to integer"),
        ("object.a.isInteger()", "no such overload"),
        ('quantity("1").add(object.s)', "no such overload"),
        ('quantity("1em")', "suffix"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
