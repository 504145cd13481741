import math

import pytest

from proxy.core.cel.values.go_numbers import (
    format_general,
    format_plain,
    parse_float,
    parse_int,
    parse_uint,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"), (100000.0, "100000"), (1000000.0, "1e+06"), (0.0001, "0.0001"),
        (0.00001, "1e-05"), (1.5e-7, "1.5e-07"), (-0.0, "-0"), (0.0, "0"), (12.5, "12.5"),
        (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (1.25e300, "1.25e+300"),
    ],
)  # fmt: skip
def test_a_double_in_few_digits(number: float, text: str) -> None:
    assert format_general(number) == text


def test_a_double_without_exponent() -> None:
    assert format_plain(1e-9) == "0.000000001"
    assert format_plain(3661.0) == "3661"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1.5", 1.5), ("+.5", 0.5), ("1_0", 10.0), ("0x1p-2", 0.25), ("inf", math.inf),
        ("-Infinity", -math.inf), ("1__0", None), (" 1", None), ("1e400", None), ("", None),
        ("0x1", None), ("0x1p99999", None), ("0x_1p0", 1.0), ("0x1_p0", None), ("--1", None),
        ("+nan", None), ("x", None),
    ],
)  # fmt: skip
def test_doubles_are_read(text: str, wanted: float | None) -> None:
    assert parse_float(text) == wanted


def test_nan_is_read() -> None:
    number = parse_float("NaN")
    assert number is not None
    assert math.isnan(number)


def test_integers_are_read() -> None:
    assert parse_int("+5") == 5
    assert parse_int("-05") == -5
    assert parse_int("1_0") is None
    assert parse_int("9" * 1000) is None
    assert parse_int("0" * 1000 + "1") == 1
    assert parse_uint("5") == 5
    assert parse_uint("-5") is None
