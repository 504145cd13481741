import pytest

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.values import conversion
from proxy.core.cel.values.kinds import UINT_MAX, Duration, Timestamp, Uint


@pytest.mark.parametrize(
    ("function", "given", "wanted"),
    [
        ("to_bool", "t", True),
        ("to_bool", False, False),
        ("to_bytes", "é", b"\xc3\xa9"),
        ("to_bytes", b"a", b"a"),
        ("to_double", "1.5", 1.5),
        ("to_double", 1, 1.0),
        ("to_double", Uint(1), 1.0),
        ("to_double", 2.5, 2.5),
        ("to_int", "-5", -5),
        ("to_int", 1.9, 1),
        ("to_int", Uint(3), 3),
        ("to_int", Duration(5), 5),
        ("to_int", Timestamp(5_000_000_000), 5),
        ("to_int", 7, 7),
        ("to_uint", "5", Uint(5)),
        ("to_uint", 1.9, Uint(1)),
        ("to_uint", 3, Uint(3)),
        ("to_uint", Uint(4), Uint(4)),
        ("to_text", 1.0, "1"),
        ("to_text", Uint(1), "1"),
        ("to_text", True, "true"),
        ("to_text", False, "false"),
        ("to_text", b"b", "b"),
        ("to_text", Duration(10**9), "1s"),
        ("to_text", Timestamp(0), "1970-01-01T00:00:00Z"),
        ("to_text", "a", "a"),
        ("to_text", 5, "5"),
        ("to_duration", "1s", Duration(10**9)),
        ("to_duration", Duration(1), Duration(1)),
        ("to_timestamp", 1, Timestamp(10**9)),
        ("to_timestamp", Timestamp(1), Timestamp(1)),
        ("to_timestamp", "1970-01-01T00:00:01Z", Timestamp(10**9)),
    ],
)
def test_conversions(function: str, given: object, wanted: object) -> None:
    converted = getattr(conversion, function)(given)

    assert converted == wanted
    assert type(converted) is type(wanted)


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        ("to_bool", "yes", "type conversion error from 'string' to 'bool'"),
        ("to_bytes", 1, "type conversion error from 'int' to 'bytes'"),
        ("to_double", "x", "type conversion error from 'string' to 'double'"),
        ("to_double", None, "type conversion error from 'null_type' to 'double'"),
        ("to_int", "1.5", "type conversion error from 'string' to 'int'"),
        ("to_int", 1e19, "integer overflow"),
        ("to_int", Uint(UINT_MAX), "integer overflow"),
        ("to_int", "9223372036854775808", "type conversion error from 'string' to 'int'"),
        ("to_uint", -1, "unsigned integer overflow"),
        ("to_uint", -1.0, "unsigned integer overflow"),
        ("to_uint", "-1", "type conversion error from 'string' to 'uint'"),
        ("to_text", b"\xff", "invalid UTF-8 in bytes, cannot convert to string"),
        ("to_text", [1], "type conversion error from 'list' to 'string'"),
        ("to_duration", "1d", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("to_timestamp", "x", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("to_timestamp", 2**60, "timestamp overflow"),
        ("to_timestamp", "0000-01-01T00:00:00Z", "timestamp overflow"),
    ],
)
def test_conversions_that_fail(function: str, given: object, message: str) -> None:
    with pytest.raises(CelEvaluationError) as caught:
        getattr(conversion, function)(given)

    assert caught.value.message == message
