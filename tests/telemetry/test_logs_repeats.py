"""A warning that repeats does not fill the log, and nobody forgets that it repeats."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from proxy.telemetry.logs import RepeatFilter, configure_logs, fields, suppressed_lines
from tests.support.clock import FakeClock
from tests.support.restored_logging import restored_logging

log = logging.getLogger("understudy.test")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stream(clock: FakeClock) -> io.StringIO:
    stream = io.StringIO()
    configure_logs(style="json", level="debug", stream=stream)
    logging.getLogger().handlers[0].filters[:] = [RepeatFilter(3, clock)]
    return stream


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_so_many_are_written_and_the_next_minute_tells_of_the_others(
    stream: io.StringIO, clock: FakeClock
) -> None:
    for number in range(10):
        log.warning("it fails", extra=fields(number=number))
    assert [line["number"] for line in lines(stream)] == [0, 1, 2]
    assert suppressed_lines() == 7

    clock.advance(60)
    log.warning("it fails", extra=fields(number=10))
    log.warning("it fails")

    last, after = lines(stream)[3:]
    assert (last["number"], last["suppressed"]) == (10, 7)
    assert "suppressed" not in after


def test_each_event_is_counted_for_itself(stream: io.StringIO) -> None:
    for _ in range(5):
        log.warning("one")
        log.error("one")
        logging.getLogger("understudy.other").warning("one")
        log.warning("it is %s", "many")

    assert len(lines(stream)) == 4 * 3


def test_what_is_no_warning_is_always_written(stream: io.StringIO) -> None:
    for _ in range(10):
        log.info("request")

    assert len(lines(stream)) == 10
    assert suppressed_lines() == 0


def test_zero_is_no_limit() -> None:
    stream = io.StringIO()
    configure_logs(style="text", level="info", stream=stream)

    for _ in range(100):
        log.warning("it fails")

    assert stream.getvalue().count("\n") == 100


def test_the_limit_is_what_is_configured() -> None:
    stream = io.StringIO()
    configure_logs(style="text", level="info", stream=stream, repeats_per_minute=2)

    for _ in range(100):
        log.warning("it fails")

    assert stream.getvalue().count("\n") == 2


def test_texts_that_never_repeat_take_no_memory(stream: io.StringIO, clock: FakeClock) -> None:
    repeats = RepeatFilter(1, clock)

    for number in range(5000):
        record = logging.LogRecord("library", logging.ERROR, "", 0, f"text {number}", (), None)
        assert repeats.filter(record)

    assert len(repeats._minutes) <= 1000
