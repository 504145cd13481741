import pytest

from proxy.core.cel.checking.declarations import FUNCTIONS
from proxy.core.cel.library.times import OVERLOADS
from tests.core.cel.evaluating import failure, value


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('timestamp("2024-02-29T12:30:45.678Z").getFullYear()', 2024),
        ('timestamp("2024-02-29T12:30:45Z").getMonth()', 1),
        ('timestamp("2024-02-29T12:30:45Z").getDate()', 29),
        ('timestamp("2024-02-29T12:30:45Z").getDayOfMonth()', 28),
        ('timestamp("2024-02-29T12:30:45Z").getDayOfWeek()', 4),
        ('timestamp("2024-02-29T12:30:45Z").getDayOfYear()', 59),
        ('timestamp("2024-02-29T12:30:45Z").getHours("+01:30")', 14),
        ('timestamp("2024-02-29T12:30:45Z").getMinutes("-00:45")', 45),
        ('timestamp("2024-07-01T12:00:00Z").getHours("Europe/Berlin")', 14),
        ('timestamp("2024-02-29T12:30:45.678Z").getMilliseconds()', 678),
        ('timestamp("2024-02-29T12:30:45Z").getSeconds("UTC")', 45),
        ('timestamp("0001-01-01T00:00:00Z").getFullYear("-01:00")', 0),
        ('timestamp("0001-06-01T00:00:00Z").getFullYear("Europe/Berlin")', 1),
        ('timestamp("9999-06-01T00:00:00Z").getHours("Europe/Berlin")', 2),
        ('duration("-90m").getHours()', -1),
        ('duration("90s").getMinutes()', 1),
        ('duration("1.5s").getSeconds()', 1),
        ('duration("1500ms").getMilliseconds()', 1500),
        ('duration("-1500ms").getMilliseconds()', -1500),
    ],
)
def test_values(expression: str, wanted: object) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('timestamp(0).getHours("Nowhere/Land")', "unknown time zone"),
        ('timestamp(0).getHours("x:30")', 'strconv.Atoi: parsing "x"'),
        ('timestamp(0).getHours("1:x")', 'strconv.Atoi: parsing "x"'),
        ('timestamp(0).getHours("01:60")', "out of range"),
        ("object.a.getHours()", "no such overload"),
    ],
)
def test_failures(expression: str, message: str) -> None:
    assert message in failure(expression)


def test_its_overloads_are_declared() -> None:
    declared = {overload.identifier for overloads in FUNCTIONS.values() for overload in overloads}

    assert declared >= set(OVERLOADS)
