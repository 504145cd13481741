"""The proxy's log: one line per event, as JSON or as text.

An event is a constant text; everything variable is a field. Each field is named explicitly and is
never a header, a body or an exception of another library, which might contain a secret. The size of
a line is bounded, and so is the part of it that a client sent.
"""

import asyncio
import json
import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple, TextIO

import orjson

from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.timestamps import NANOSECONDS_PER_SECOND, TimestampFormatter
from proxy.core.truncation import longest_prefix, truncate_to_size
from proxy.telemetry.uncaught import redacted_traceback

_PERIOD_SECONDS = 60.0
_MAX_EVENTS = 1000
# The attribute of a log record that holds its fields.
FIELDS = "understudy_fields"


class _Minute:
    """How often one event was logged and suppressed within one minute."""

    __slots__ = ("suppressed", "until", "written")

    def __init__(self, until: float, suppressed: int = 0) -> None:
        self.until = until
        self.written = 0
        self.suppressed = suppressed


class RepeatFilter(logging.Filter):
    """Passes a warning or error, unless it was logged too often within a minute."""

    def __init__(self, max_per_minute: int, clock: Callable[[], float]) -> None:
        """`max_per_minute` of 0 means no limit."""
        super().__init__()
        self._max_per_minute = max_per_minute
        self._clock = clock
        self._minutes: dict[tuple[str, int, str], _Minute] = {}
        self.suppressed = 0
        """The number of suppressed lines so far."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record; the next one written has the suppressed count."""
        if record.levelno < logging.WARNING or not self._max_per_minute:
            return True
        now = self._clock()
        # A library's text may contain anything. Only its beginning identifies the event.
        key = (record.name, record.levelno, str(record.msg)[:200])
        minute = self._minutes.get(key)
        if minute is None or now >= minute.until:
            minute = self._begin(key, now)
        if minute.written >= self._max_per_minute:
            minute.suppressed += 1
            self.suppressed += 1
            return False
        minute.written += 1
        if minute.suppressed:
            with_count = {**getattr(record, FIELDS, {}), "suppressed": minute.suppressed}
            setattr(record, FIELDS, with_count)
            minute.suppressed = 0
        return True

    def _begin(self, key: tuple[str, int, str], now: float) -> _Minute:
        former = self._minutes.pop(key, None)
        if len(self._minutes) >= _MAX_EVENTS:
            # Evict the oldest; its suppressed lines remain in the total.
            del self._minutes[next(iter(self._minutes))]
        minute = _Minute(now + _PERIOD_SECONDS, former.suppressed if former is not None else 0)
        self._minutes[key] = minute
        return minute


# Created once: `json.dumps` creates a new encoder for each call with an option.
_encode_anything = json.JSONEncoder(default=str, separators=(",", ":")).encode

MAX_LINE_BYTES = 4096
"""Limit of one line without its traceback. Many collectors split lines above 16 KiB."""
MAX_TRACEBACK_BYTES = 12 * 1024
"""Limit of the traceback, in addition to the rest of the line."""
# Time, level, logger and separators; names of fields are counted with their values.
_FIXED_BYTES = 256
# Members that only a line of the access log has: ids, numbers and their names.
_OWN_MEMBERS_BYTES = 768
_MIN_VALUE_BYTES = 32
_QUOTES = 2
_DELETE = "\x7f"
_BATCH_SECONDS = 0.01
# At DEBUG these log whole requests and responses, including tokens.
_VERBOSE_LIBRARIES = ("aiohttp", "asyncio", "kubernetes_asyncio", "opentelemetry", "urllib3")


# The event is truncated together with the fields, like a field. A further field reports it.
_EVENT, _CUT = "message", "truncated"

_timestamp = TimestampFormatter().format_milliseconds


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return the `extra` of a log call that adds fields to its line."""
    return {FIELDS: values}


def configure_logs(
    *,
    style: Literal["json", "text"],
    level: str,
    stream: TextIO | None = None,
    repeats_per_minute: int = 0,
) -> None:
    """Send all logs to one stream (standard error by default), in one format.

    The same warning is written at most `repeats_per_minute` times per minute; 0 is no limit.
    """
    # No line contains thread, process or source line. Determining them costs as much as the rest
    # of a line (see "Optimization" in the logging HOWTO).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - documented there
    number = logging.getLevelNamesMapping()[level.upper()]
    line = _json_line if style == "json" else _text_line
    handler = _LineHandler(line, stream or sys.stderr, takes_info=number <= logging.INFO)
    handler.addFilter(RepeatFilter(repeats_per_minute, time.monotonic))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))


def suppressed_lines() -> int:
    """Return the number of lines that were not written because they repeat others."""
    handlers = logging.getLogger().handlers
    filters = [log_filter for handler in handlers for log_filter in handler.filters]
    return sum(
        log_filter.suppressed for log_filter in filters if isinstance(log_filter, RepeatFilter)
    )


class AccessLogger:
    """Logs one frequent event without the cost of a log record for each line.

    The line equals the one that a logger of this name writes at INFO.
    """

    __slots__ = ("_constant", "_event", "_logger")

    def __init__(self, name: str, event: str) -> None:
        self._logger = logging.getLogger(name)
        self._event = event
        self._constant = f'"level":"info","message":"{event}","logger":"{name}"'

    def write(self, time_ns: int, members: str) -> None:
        """Write one line with these fields, given as the members of a JSON object."""
        handlers = logging.root.handlers
        handler = handlers[0] if len(handlers) == 1 else None
        if type(handler) is _LineHandler and handler.takes_json_lines:
            line = f'{{"time":"{_timestamp(time_ns)}",{self._constant},{members}}}\n'
            if len(line) <= MAX_LINE_BYTES:
                handler.add(line)
                return
        if not self._logger.isEnabledFor(logging.INFO):
            return
        values: dict[str, object] = json.loads(f"{{{members}}}")
        if type(handler) is _LineHandler:
            handler.write(_Entry(time_ns, "info", self._event, self._logger.name, values))
        else:
            # Another handler is installed, and expects records.
            self._logger.info(self._event, extra=fields(**values))


class _Entry(NamedTuple):
    """The contents of one line."""

    time_ns: int
    level: str
    event: str
    logger: str
    values: dict[str, object]
    exception: str | None = None


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes log records and entries as lines."""

    def __init__(self, line: Callable[[_Entry], str], stream: TextIO, *, takes_info: bool) -> None:
        super().__init__(stream)
        self._line = line
        # Whether a frequent event may be written without checking its logger.
        self.takes_json_lines = takes_info and line is _json_line
        self._queued: deque[str] = deque()
        self._is_scheduled = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record at once, after the queued lines."""
        self._write_queued()
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line without its newline."""
        error = record.exc_info
        entry = _Entry(
            round(record.created * NANOSECONDS_PER_SECOND),
            record.levelname.lower(),
            record.getMessage(),
            record.name,
            getattr(record, FIELDS, {}),
            redacted_traceback(error[1]) if error and error[1] else None,
        )
        return self._bounded_line(entry)

    def write(self, entry: _Entry) -> None:
        """Write an entry as a line."""
        self.add(f"{self._bounded_line(entry)}\n")

    def _bounded_line(self, entry: _Entry) -> str:
        line = self._line(entry)
        return line if len(line) <= MAX_LINE_BYTES else self._line(_truncated(entry))

    def add(self, line: str) -> None:
        """Queue a line, to be written together with others a few milliseconds later.

        A separate write for each request would cost as much as formatting its line.
        """
        self._queued.append(line)
        if self._is_scheduled:
            return
        try:
            asyncio.get_running_loop().call_later(_BATCH_SECONDS, self._write_queued)
        except RuntimeError:
            self._write_queued()  # No event loop is running.
        else:
            self._is_scheduled = True

    def close(self) -> None:
        """Write the queued lines, and close."""
        self._write_queued()
        super().close()

    def _write_queued(self) -> None:
        """Write the queued lines; a failed write must not fail a request."""
        self._is_scheduled = False
        assert self.lock is not None  # every handler has one, until the interpreter ends
        with self.lock, suppress(OSError, ValueError):
            lines = [self._queued.popleft() for _ in range(len(self._queued))]
            if lines:
                self.stream.write("".join(lines))
                self.stream.flush()


def _json_line(entry: _Entry) -> str:
    """Return one JSON object; JSON escapes every character that could forge a line."""
    line: dict[str, object] = {
        "time": _timestamp(entry.time_ns),
        "level": entry.level,
        "message": entry.event,
        "logger": entry.logger,
        **entry.values,
    }
    if entry.exception is not None:
        line["exception"] = entry.exception
    return _encode(line)


def _text_line(entry: _Entry) -> str:
    """Return time, level, event and key=value fields; JSON quoting keeps it a single line."""
    event = entry.event
    if not (event.isascii() and event.isprintable()):
        # The proxy's own events are constant; a library's may contain data of a client.
        event = _encode(event)
    parts = [_timestamp(entry.time_ns), entry.level, event]
    parts += [f"{name}={_encode(value)}" for name, value in entry.values.items()]
    if entry.exception is not None:
        parts.append(_encode(entry.exception))
    return " ".join(parts)


def members(values: dict[str, object]) -> str:
    """Return fields as the members of a JSON object, as they appear in a line."""
    text, most = _encode(values), MAX_LINE_BYTES - _OWN_MEMBERS_BYTES
    return (text if len(text) <= most else _encode(_truncated_values(values, most)))[1:-1]


def _truncated(entry: _Entry) -> _Entry:
    """Return an entry whose line is within the limits; its longest values are truncated."""
    # The event may contain data of a client, too: events of libraries do.
    values: dict[str, object] = {**entry.values, _EVENT: entry.event}
    exception = entry.exception
    if exception is not None and _size(exception) > MAX_TRACEBACK_BYTES:
        # Keep the end, which names the exception.
        end = longest_prefix(exception[::-1], MAX_TRACEBACK_BYTES - len(TRUNCATION_MARKER), _size)
        exception, values[_CUT] = TRUNCATION_MARKER + end[::-1], True
    most = MAX_LINE_BYTES - _FIXED_BYTES - len(entry.logger)
    if len(_encode(values)) > most:
        values = _truncated_values(values, most)
    return entry._replace(event=str(values.pop(_EVENT)), values=values, exception=exception)


def _truncated_values(values: dict[str, object], most: int) -> dict[str, object]:
    """Return values of at most `most` bytes with their names, and a field that reports the cut.

    Short values are kept. Longer ones share the remaining bytes.
    """
    sizes = {name: len(_encode(value)) for name, value in values.items()}
    left = most - sum(len(name) + len('"":,') for name in (*values, _CUT)) - len("true")
    kept = dict(values)
    for position, name in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        share = max(left // (len(sizes) - position), _MIN_VALUE_BYTES)
        if sizes[name] > share:
            value = values[name]
            text = value if isinstance(value, str) else _encode(value)
            kept[name] = truncate_to_size(text, share - _QUOTES, size_of=_size)
        left -= min(sizes[name], share)
    return {**kept, _CUT: True}


def _size(text: str) -> int:
    return len(_encode(text)) - _QUOTES


def _encode(value: object) -> str:
    """Return JSON in printable ASCII, which is safe on a terminal."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        return _encode_anything(value)
    # All other control characters are escaped. `isprintable` took 2 ms for a name of 64 KiB.
    return text if text.isascii() and _DELETE not in text else _encode_anything(value)
