"""Setting types: durations, file paths, addresses and servers, as written in a config file."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from proxy.settings.types import (
    ADDRESS_PATTERN,
    DURATION_PATTERN,
    TIMEOUT_PATTERN,
    Address,
    Duration,
    FilePath,
    Server,
    StrictModel,
    Timeout,
    format_duration,
    parse_address,
    parse_server,
)

# Annotated types have no class, so their adapters carry no type either.
DURATION: TypeAdapter[Any] = TypeAdapter(Duration)
TIMEOUT: TypeAdapter[Any] = TypeAdapter(Timeout)
ADDRESS: TypeAdapter[Any] = TypeAdapter(Address)
SERVER: TypeAdapter[Any] = TypeAdapter(Server)
FILE_PATH: TypeAdapter[Any] = TypeAdapter(FilePath)

DURATIONS = {
    "10s": 10.0,
    "1.5s": 1.5,
    "500ms": 0.5,
    "2m": 120.0,
    "1h": 3600.0,
    "1m30s": 90.0,
    "1h500ms": 3600.5,
    "1h2m3s4ms": 3723.004,
    "0s": 0.0,
    "8760h": 31_536_000.0,
}


class Example(StrictModel):
    retry_count: int = 1


@pytest.mark.parametrize(("written", "seconds"), DURATIONS.items())
def test_duration_is_the_sum_of_its_units_in_seconds(written: str, seconds: float) -> None:
    assert DURATION.validate_python(written) == seconds
    assert re.search(DURATION_PATTERN, written)


@pytest.mark.parametrize(
    "written",
    ["10", "", "s", "-1s", "1s2m", "1 s", "10S", "1d", "1e3s", ".5s", "1.s", "0.5m", "\u0661s"],
)
def test_text_without_valid_units_is_not_a_duration(written: str) -> None:
    with pytest.raises(ValidationError, match="must be a duration such as 10s, 1m30s or 500ms"):
        DURATION.validate_python(written)
    assert not re.search(DURATION_PATTERN, written)


@pytest.mark.parametrize("value", [10, 1.5, None, True, ["1s"], b"1s"], ids=repr)
def test_value_other_than_text_is_not_a_duration(value: object) -> None:
    with pytest.raises(ValidationError, match="must be a duration"):
        DURATION.validate_python(value)


@pytest.mark.parametrize("written", ["8760h1ms", "8761h", "9" * 400 + "s"])
def test_duration_above_one_year_is_an_error(written: str) -> None:
    with pytest.raises(ValidationError, match="must be at most 8760h"):
        DURATION.validate_python(written)


def test_timeout_may_be_one_millisecond_but_not_zero() -> None:
    assert TIMEOUT.validate_python("1ms") == 0.001
    assert re.search(TIMEOUT_PATTERN, "1ms")
    for written in ("0s", "0ms", "0h0m"):
        with pytest.raises(ValidationError, match="greater than 0"):
            TIMEOUT.validate_python(written)
        assert not re.search(TIMEOUT_PATTERN, written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.002, "2ms"),
        (0.5, "500ms"),
        (1.5, "1500ms"),
        (10.0, "10s"),
        (90.0, "90s"),
        (120.0, "2m"),
        (3600.0, "1h"),
        (5400.0, "90m"),
    ],
)
def test_formatted_duration_has_the_largest_exact_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", DURATIONS.values())
def test_formatted_duration_is_parsed_to_the_same_value(seconds: float) -> None:
    assert DURATION.validate_python(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::]:65535", ("::", 65535)),
        ("localhost:8443", ("localhost", 8443)),
    ],
)
def test_address_has_a_host_and_a_port(written: str, address: tuple[str, int]) -> None:
    assert ADDRESS.validate_python(written) == parse_address(written) == address
    assert re.search(ADDRESS_PATTERN, written)


@pytest.mark.parametrize(
    "value",
    [8443, ":8443", "127.0.0.1", "a:65536", "a:123456", "a:-1", "a:http", "a:", "a:\u0661", None],
    ids=repr,
)
def test_value_without_host_or_valid_port_is_not_an_address(value: object) -> None:
    with pytest.raises(ValidationError, match="must be ADDRESS:PORT"):
        ADDRESS.validate_python(value)


@pytest.mark.parametrize(
    ("written", "server"),
    [
        ("https://10.0.0.1:6443", ("10.0.0.1", 6443)),
        ("https://api.example/", ("api.example", 443)),
        ("https://[::1]:6443", ("::1", 6443)),
    ],
)
def test_server_is_an_https_url_with_port_443_by_default(
    written: str, server: tuple[str, int]
) -> None:
    assert SERVER.validate_python(written) == parse_server(written) == server


@pytest.mark.parametrize(
    "value",
    ["http://10.0.0.1", "10.0.0.1:6443", "https://", "https://a/path", 7, None],
    ids=repr,
)
def test_value_other_than_an_https_url_is_not_a_server(value: object) -> None:
    with pytest.raises(ValidationError, match="must be https://HOST") as raised:
        SERVER.validate_python(value)
    assert f"not {value}" in str(raised.value)


@pytest.mark.parametrize("written", ["https://a:65536", "https://a..b", "https://" + "a" * 64])
def test_server_with_an_impossible_port_or_name_is_an_error(written: str) -> None:
    with pytest.raises(ValidationError):
        SERVER.validate_python(written)


@pytest.mark.parametrize(
    "written", ["https://user:hunter2@a", "https://a?token=hunter2", "https://a#hunter2"]
)
def test_error_about_a_server_does_not_repeat_a_secret(written: str) -> None:
    with pytest.raises(ValueError, match="must be https://HOST") as raised:
        parse_server(written)
    assert "hunter2" not in str(raised.value)


def test_relative_path_is_relative_to_the_directory_of_the_config_file() -> None:
    context = {"directory": Path("/etc/understudy")}

    assert FILE_PATH.validate_python("a/b", context=context) == Path("/etc/understudy/a/b")
    assert FILE_PATH.validate_python("/a/b", context=context) == Path("/a/b")
    assert FILE_PATH.validate_python("a/b") == Path("a/b")


@pytest.mark.parametrize("value", ["", "a\0b", 5, None, ["a"]], ids=repr)
def test_empty_or_impossible_path_is_an_error(value: object) -> None:
    with pytest.raises(ValidationError, match="must be the path of a file"):
        FILE_PATH.validate_python(value)


def test_settings_are_read_by_their_camel_case_keys_only() -> None:
    assert Example.model_validate({"retryCount": 2}).retry_count == 2
    for key in ("retry_count", "retrycount", "other"):
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            Example.model_validate({key: 2})


@pytest.mark.parametrize("value", ["2", 2.0, True], ids=repr)
def test_settings_coerce_no_value_to_another_type(value: object) -> None:
    with pytest.raises(ValidationError, match="valid integer"):
        Example.model_validate({"retryCount": value})


def test_settings_cannot_be_changed() -> None:
    example = Example()

    with pytest.raises(ValidationError, match="frozen"):
        example.retry_count = 2  # type: ignore[misc]  # the rejected assignment
