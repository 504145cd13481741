"""Durations: accepted and rejected as Go's `time.ParseDuration` does, at a bounded cost."""

import pytest

from proxy.core.gocompat.duration import parse_duration_error
from proxy.core.gocompat.quote import MAX_SHOWN_LENGTH, TRUNCATION_MARKER

# Errors of Go 1.26's time.ParseDuration; None is a valid duration.
GO_ERRORS = {
    b"5s": None,
    b"0": None,
    b"-0": None,
    b"+1.5h": None,
    b".5s": None,
    b"5.s": None,
    b"1h2m3.4s5ms6us7ns": None,
    "1\u00b5s2\u03bcs".encode(): None,
    b"0.99999999999999999999999s": None,
    b"-9223372036854775808ns": None,
    b"9223372036854775807ns": None,
    b"9223372036854775808ns": 'time: invalid duration "9223372036854775808ns"',
    b"9223372036854775809ns": 'time: invalid duration "9223372036854775809ns"',
    b"2562047h47m16.854775807s1ns": 'time: invalid duration "2562047h47m16.854775807s1ns"',
    b"9223372036854775807ns1s1": 'time: invalid duration "9223372036854775807ns1s1"',
    b"9999999h": 'time: invalid duration "9999999h"',
    b"5": 'time: missing unit in duration "5"',
    b"1s5": 'time: missing unit in duration "1s5"',
    b"5d": 'time: unknown unit "d" in duration "5d"',
    b"5S": 'time: unknown unit "S" in duration "5S"',
    b"5 s": 'time: unknown unit " s" in duration "5 s"',
    b"": 'time: invalid duration ""',
    b"-": 'time: invalid duration "-"',
    b"--5s": 'time: invalid duration "--5s"',
    b".": 'time: invalid duration "."',
    b".s": 'time: invalid duration ".s"',
    b"abc": 'time: invalid duration "abc"',
    b'5"\\': 'time: unknown unit "\\"\\\\" in duration "5\\"\\\\"',
    b"5\xff\x01": 'time: unknown unit "\\xff\\x01" in duration "5\\xff\\x01"',
    "5\u00e9".encode(): 'time: unknown unit "\\xc3\\xa9" in duration "5\\xc3\\xa9"',
}


@pytest.mark.parametrize("text", GO_ERRORS, ids=repr)
def test_duration_error_equals_the_error_of_go(text: bytes) -> None:
    assert parse_duration_error(text) == GO_ERRORS[text]


def test_leading_zeros_of_a_duration_do_not_count_as_digits() -> None:
    assert parse_duration_error(b"0" * 40 + b"5s") is None
    assert parse_duration_error(b"1" + b"0" * 40 + b"s") is not None


def test_duration_longer_than_the_limit_is_rejected_unparsed() -> None:
    longest = b"0s" * 128

    assert len(longest) == 256
    assert parse_duration_error(longest) is None
    assert parse_duration_error(b"0" + longest) is not None


@pytest.mark.parametrize(
    "text", [b"9" * 100_000 + b"s", b"0h" * 50_000, b"\xff" * 100_000], ids=["9", "0h", "ff"]
)
def test_rejected_duration_is_truncated_in_its_error(text: bytes) -> None:
    error = parse_duration_error(text)

    assert error is not None
    assert error.startswith('time: invalid duration "')
    assert error.endswith(f'{TRUNCATION_MARKER}"')
    assert len(error) < 5 * MAX_SHOWN_LENGTH
