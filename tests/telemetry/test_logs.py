"""One line per fact, whatever is in it, and nothing from libraries that talk too much."""

import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Literal

import pytest

from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.telemetry.logs import (
    MAX_LINE_BYTES,
    MAX_TRACEBACK_BYTES,
    AccessLogger,
    configure_logs,
    fields,
    members,
)
from tests.support.restored_logging import restored_logging

log = logging.getLogger("understudy.test")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    with restored_logging():
        yield


def configured(style: Literal["json", "text"], level: str = "debug") -> io.StringIO:
    stream = io.StringIO()
    configure_logs(style=style, level=level, stream=stream)
    return stream


def test_a_json_line_holds_the_event_and_its_fields() -> None:
    stream = configured("json")

    log.info("request", extra=fields(code=200, user="alice"))

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "message": "request",
        "logger": "understudy.test",
        "code": 200,
        "user": "alice",
    }


def test_a_text_line_holds_the_event_and_its_fields() -> None:
    stream = configured("text")

    log.warning("request", extra=fields(code=200, user="alice bob"))

    time, level, rest = stream.getvalue().split(" ", 2)
    assert time.endswith("Z")
    assert (level, rest) == ("warning", 'request code=200 user="alice bob"\n')


@pytest.mark.parametrize("style", ["json", "text"])
@pytest.mark.parametrize("forged", ["\n", "\r", "\u2028", "\x1b[2K", "\x85", "\0"])
def test_no_text_can_forge_a_line_or_a_terminal_command(
    style: Literal["json", "text"], forged: str
) -> None:
    stream = configured(style)

    log.info("caller said %s", forged + "error forged", extra=fields(user=forged + "forged"))

    written = stream.getvalue()
    assert written.count("\n") == 1
    assert written.isascii()
    assert written.rstrip("\n").isprintable()


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_traceback_stays_in_its_line(style: Literal["json", "text"]) -> None:
    stream = configured(style)

    try:
        int("what happened")
    except ValueError:
        log.exception("request failed")

    assert stream.getvalue().count("\n") == 1
    assert "builtins.ValueError" in stream.getvalue()
    assert "test_logs.py" in stream.getvalue()
    # Only what somebody else said is left out, which the line of our own code is not.
    assert stream.getvalue().count("what happened") == 1


@pytest.mark.parametrize("style", ["json", "text"])
def test_any_value_can_be_a_field(style: Literal["json", "text"]) -> None:
    stream = configured(style)

    log.info("odd", extra=fields(raw=b"\xff", nothing=None, error=ValueError("x"), lone="\ud800"))

    assert stream.getvalue().count("\n") == 1


def test_less_than_the_level_is_not_written() -> None:
    stream = configured("json", "warning")

    log.info("unimportant")
    log.warning("important")

    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["important"]


def test_libraries_that_print_whole_answers_stay_quiet_at_debug() -> None:
    stream = configured("json", "debug")

    for name in ("aiohttp.client", "kubernetes_asyncio.client.rest", "urllib3", "asyncio"):
        logging.getLogger(name).debug("response body: canary")
    log.debug("ours")

    assert "canary" not in stream.getvalue()
    assert "ours" in stream.getvalue()


def test_configuring_again_does_not_double_the_lines() -> None:
    configured("json")
    stream = configured("json")

    log.info("once")

    assert stream.getvalue().count("once") == 1


@pytest.mark.parametrize("style", ["json", "text"])
def test_access_log_line_has_a_longest_size(style: Literal["json", "text"]) -> None:
    stream = configured(style)
    first, second = members({"caller": "b" * 70_000}), members({"error": "<" * 70_000})

    AccessLogger("understudy.test", "request").write(time.time_ns(), f"{first},{second}")

    (line,) = stream.getvalue().splitlines()
    assert MAX_LINE_BYTES // 2 < len(line) <= MAX_LINE_BYTES
    assert "caller" in line
    assert "error" in line
    assert "truncated" in line


@pytest.mark.parametrize("style", ["json", "text"])
def test_an_event_that_is_logged_often_reads_like_any_other(style: Literal["json", "text"]) -> None:
    stream = configured(style)
    values: dict[str, object] = {"code": 200, "user": "al\nice", "mode": None}

    log.info("request", extra=fields(**values))
    AccessLogger("understudy.test", "request").write(time.time_ns(), members(values))

    by_record, by_event = stream.getvalue().splitlines()
    from_level = by_record.index("info")
    assert by_event[from_level:] == by_record[from_level:]
    assert len(by_event) == len(by_record)


@pytest.mark.parametrize("style", ["json", "text"])
def test_an_event_that_is_logged_often_has_a_level(style: Literal["json", "text"]) -> None:
    stream = configured(style, "warning")

    AccessLogger("understudy.test", "request").write(time.time_ns(), members({"code": 200}))

    assert stream.getvalue() == ""


def test_others_who_listen_to_the_log_hear_of_every_event() -> None:
    configured("json")
    heard: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(listener)

    AccessLogger("understudy.test", "request").write(time.time_ns(), members({"code": 200}))

    assert heard == ["request"]


def test_a_log_that_cannot_be_written_does_not_fail_the_request() -> None:
    configured("json").close()

    AccessLogger("understudy.test", "request").write(time.time_ns(), members({"code": 200}))


ODD = ["x", "<", "\x01", "é", "😀", '"', "\ud800", "\n"]


@pytest.mark.parametrize("style", ["json", "text"])
@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_a_line_has_a_longest_size_whatever_is_in_it(
    style: Literal["json", "text"], odd: str
) -> None:
    stream = configured(style)

    log.info("request rejected", extra=fields(code=400, reason=odd * 100_000, user=odd * 9000))
    log.info("of a library: %s", odd * 100_000)

    for line in stream.getvalue().splitlines():
        assert MAX_LINE_BYTES // 4 < len(line) <= MAX_LINE_BYTES
        assert TRUNCATION_MARKER in line
        assert "truncated" in line


def test_a_line_that_fits_is_not_cut_and_long_values_share_what_short_ones_leave() -> None:
    stream = configured("json")
    whole = "x" * (MAX_LINE_BYTES - 150)

    log.info("event", extra=fields(code=1, reason=whole))
    log.info("event", extra=fields(code=1, reason=whole * 3, listed=["y" * 9999], user="bob"))

    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["reason"] == whole
    assert "truncated" not in first
    assert (second["code"], second["user"], second["truncated"]) == (1, "bob", True)
    assert second["reason"].endswith(TRUNCATION_MARKER)
    assert second["listed"].startswith('["yyy')
    assert abs(len(second["reason"]) - len(second["listed"])) < 10


@pytest.mark.parametrize("style", ["json", "text"])
def test_the_end_of_a_long_traceback_is_kept(style: Literal["json", "text"]) -> None:
    class Failed(Exception):
        pass

    Failed.__module__ = "proxy.test"
    stream = configured(style)

    log.error("request failed", exc_info=Failed("x" * 50_000 + "THE END"))

    (line,) = stream.getvalue().splitlines()
    assert len(line) <= MAX_LINE_BYTES + MAX_TRACEBACK_BYTES
    assert "THE END" in line
    assert TRUNCATION_MARKER in line


def test_the_members_of_a_repeated_line_leave_room_for_the_rest_of_it() -> None:
    plain = members({"caller": "bob", "resource": "pods"})

    long = members({"caller": "b" * 70_000, "impersonatedUser": "a" * 70_000, "resource": "pods"})

    assert plain == '"caller":"bob","resource":"pods"'
    assert json.loads(f"{{{long}}}")["resource"] == "pods"
    assert len(long) <= MAX_LINE_BYTES - 700
