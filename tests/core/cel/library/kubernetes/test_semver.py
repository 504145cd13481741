import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.kubernetes.semver import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('semver("1.2.3").major()', 1),
        ('semver("1.2.3").minor()', 2),
        ('semver("1.2.3").patch()', 3),
        ('semver("v01.2", true).patch()', 0),
        ('isSemver("v1.0.0")', False),
        ('isSemver("v1.0.0", true)', True),
        ('semver("1.0.0-alpha.1").isLessThan(semver("1.0.0"))', True),
        ('semver("1.0.0-1").compareTo(semver("1.0.0-a"))', -1),
        ('semver("2.0.0").isGreaterThan(semver("1.9.9"))', True),
        ('semver("1.0.0+a") == semver("1.0.0+b")', True),
        ('isSemver("1.2.3-01")', False),
        ('isSemver("1.2.3+")', False),
        ('isSemver("1.2")', False),
        ('isSemver("")', False),
        ('isSemver("1.2.3-")', False),
        ('isSemver("1.2.3-a_")', False),
        ('isSemver("1.2.99999999999999999999")', False),
        ('isSemver("1.-1", true)', False),
        ('isSemver("0a.1.2", true)', False),
        ('isSemver("01.2.3")', False),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("semver(object.s)", "No Major.Minor.Patch"),
        ("object.a.major()", "no such overload"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
