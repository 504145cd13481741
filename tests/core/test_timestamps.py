"""Timestamps: the text of a second, with and without the cached text of the last one."""

import pytest

from proxy.core.timestamps import NANOSECONDS_PER_SECOND, TimestampFormatter

SECOND = 1_792_166_400  # 2026-10-16T16:00:00Z
TEXT = "2026-10-16T16:00:00"


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(0, "1970-01-01T00:00:00", id="epoch"),
        pytest.param(SECOND, TEXT, id="present"),
        pytest.param(951_782_400, "2000-02-29T00:00:00", id="leap day"),
        pytest.param(4_102_444_799, "2099-12-31T23:59:59", id="end of a century"),
    ],
)
def test_second_is_formatted_in_utc(second: int, expected: str) -> None:
    timestamp = second * NANOSECONDS_PER_SECOND

    assert TimestampFormatter().format_milliseconds(timestamp) == f"{expected}.000Z"


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        pytest.param(0, f"{TEXT}.000Z", id="whole second"),
        pytest.param(7_000_000, f"{TEXT}.007Z", id="zeros before the digits"),
        pytest.param(123_999_999, f"{TEXT}.123Z", id="rounded down"),
        pytest.param(999_999_999, f"{TEXT}.999Z", id="never rounded into the next second"),
        pytest.param(NANOSECONDS_PER_SECOND, "2026-10-16T16:00:01.000Z", id="next second"),
    ],
)
def test_timestamp_is_formatted_with_three_digits_of_milliseconds(
    nanoseconds: int, expected: str
) -> None:
    timestamp = SECOND * NANOSECONDS_PER_SECOND + nanoseconds

    assert TimestampFormatter().format_milliseconds(timestamp) == expected


def test_cached_second_is_not_used_for_another_second() -> None:
    formatter = TimestampFormatter()
    seconds = [SECOND, SECOND, SECOND + 1, SECOND, 0, SECOND]

    found = [formatter.format_milliseconds(second * NANOSECONDS_PER_SECOND) for second in seconds]

    first = f"{TEXT}.000Z"
    assert found == [
        first,
        first,
        "2026-10-16T16:00:01.000Z",
        first,
        "1970-01-01T00:00:00.000Z",
        first,
    ]


def test_both_formats_use_the_same_cached_second() -> None:
    formatter = TimestampFormatter()

    assert formatter.format_milliseconds(SECOND * NANOSECONDS_PER_SECOND) == f"{TEXT}.000Z"
    assert (
        formatter.format_microseconds((SECOND + 60) * NANOSECONDS_PER_SECOND + 7_000)
        == "2026-10-16T16:01:00.000007Z"
    )
    assert formatter.format_milliseconds(SECOND * NANOSECONDS_PER_SECOND + 1) == f"{TEXT}.000Z"
