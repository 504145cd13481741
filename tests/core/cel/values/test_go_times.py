import pytest

from proxy.core.cel.values.go_times import (
    format_duration,
    format_timestamp,
    in_unit,
    local_time,
    local_year,
    parse_duration,
    parse_timestamp,
    seconds,
)
from proxy.core.cel.values.kinds import Duration, Timestamp


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1h1m1.5s", 3661_500_000_000), ("-90s", -90_000_000_000), ("0", 0), ("1ns", 1),
        (".5s", 500_000_000), ("1us", 1000), ("1µs", 1000), ("+1ms", 1_000_000),
        ("1d", None), ("", None), ("1", None), ("s", None), ("1.s", 1_000_000_000), (".s", None),
        ("9223372037s", None), ("1h 1m", None), ("9" * 50 + "h", None), ("9999999999h", None),
        ("0.99999999999999999999999s", 1_000_000_000), ("-9223372036854775808ns", -(2**63)),
    ],
)  # fmt: skip
def test_durations_are_read(text: str, nanoseconds: int | None) -> None:
    assert parse_duration(text) == (None if nanoseconds is None else Duration(nanoseconds))


@pytest.mark.parametrize(
    "text",
    ["2024-02-29T12:30:45Z", "2024-01-01T00:00:00.123456789+05:30", "0001-01-01T00:00:00Z",
     "9999-12-31T23:59:59.5Z", "2024-01-01T00:00:00-08:00"],
)  # fmt: skip
def test_a_timestamp_is_written_as_it_was_read(text: str) -> None:
    parsed = parse_timestamp(text)

    assert isinstance(parsed, Timestamp)
    assert format_timestamp(parsed) == text


@pytest.mark.parametrize(
    "text",
    ["2023-02-29T00:00:00Z", "2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00z",
     "2024-01-01T00:00:00+25:00", "x"],
)  # fmt: skip
def test_what_is_no_timestamp(text: str) -> None:
    assert parse_timestamp(text) == ""


def test_the_years_1_to_9999_are_the_range() -> None:
    assert parse_timestamp("0000-12-31T00:00:00Z") == "timestamp overflow"
    assert parse_timestamp("9999-12-31T23:59:59-01:00") == "timestamp overflow"
    assert isinstance(parse_timestamp("2024-01-01T1:00:00Z"), Timestamp)


def test_a_local_date_may_be_beyond_the_range() -> None:
    first = Timestamp(-62135596800 * 10**9)
    last = Timestamp(253402300799 * 10**9)

    assert (local_year(first, -3600), local_time(first, -3600).month) == (0, 12)
    assert (local_year(last, 3600), local_time(last, 3600).month) == (10000, 1)


def test_durations_in_units() -> None:
    assert seconds(Duration(-1_500_000_000)) == -1.5
    assert in_unit(Duration(5400 * 10**9), 3600 * 10**9) == 1.5
    assert format_duration(Duration(1)) == "0.000000001s"
