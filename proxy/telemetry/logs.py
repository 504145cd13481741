"""Our own log: one line per fact, JSON for machines or text for people.

An event is a constant text, everything variable is a field. Fields are values we name one by one,
never headers, bodies or exceptions of other libraries that might carry a secret. A line has a
longest size: of what a client sent, no more than that is written.
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

from proxy.core.gocompat.quote import MARKER
from proxy.core.timestamps import SECOND, SecondFormatter
from proxy.core.truncation import longest_prefix, shortened
from proxy.telemetry.uncaught import redacted_traceback

_SECONDS = 60.0
_MOST_EVENTS = 1000
# The name under which a record carries its fields, as `logs.py` reads them.
FIELDS = "understudy_fields"


class _Minute:
    """How often one event came since a moment."""

    __slots__ = ("suppressed", "until", "written")

    def __init__(self, until: float, suppressed: int = 0) -> None:
        self.until = until
        self.written = 0
        self.suppressed = suppressed


class RepeatFilter(logging.Filter):
    """Lets a warning or error pass, unless it has come too often."""

    def __init__(self, most_per_minute: int, clock: Callable[[], float]) -> None:
        """0 lets everything pass."""
        super().__init__()
        self._most = most_per_minute
        self._clock = clock
        self._minutes: dict[tuple[str, int, str], _Minute] = {}
        self.suppressed = 0
        """How many lines were not written so far."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to write a record; the first after a silence says how many were not."""
        if record.levelno < logging.WARNING or not self._most:
            return True
        now = self._clock()
        # A library may have put anything into its text. What is long differs late, if at all.
        key = (record.name, record.levelno, str(record.msg)[:200])
        minute = self._minutes.get(key)
        if minute is None or now >= minute.until:
            minute = self._begin(key, now)
        if minute.written >= self._most:
            minute.suppressed += 1
            self.suppressed += 1
            return False
        minute.written += 1
        if minute.suppressed:
            told = {**getattr(record, FIELDS, {}), "suppressed": minute.suppressed}
            setattr(record, FIELDS, told)
            minute.suppressed = 0
        return True

    def _begin(self, key: tuple[str, int, str], now: float) -> _Minute:
        former = self._minutes.pop(key, None)
        if len(self._minutes) >= _MOST_EVENTS:
            # The one that began first; what it has not told is still counted in the whole.
            del self._minutes[next(iter(self._minutes))]
        minute = _Minute(now + _SECONDS, former.suppressed if former is not None else 0)
        self._minutes[key] = minute
        return minute


# Made once: `json.dumps` makes a new encoder for each call that has an option.
_encode_anything = json.JSONEncoder(default=str, separators=(",", ":")).encode

MAX_LINE_BYTES = 4096
"""Of one line without a traceback. Many collectors split lines of more than 16 KiB."""
MAX_TRACEBACK_BYTES = 12 * 1024
"""Of the traceback that a line has besides."""
# Time, level, logger and what is between fields; names of fields are counted with their values.
_FIXED_BYTES = 256
# What a line of the access log says besides its common members: ids, numbers, their names.
_OWN_MEMBERS_BYTES = 768
_LEAST_VALUE_BYTES = 32
_QUOTES = 2
_DELETE = "\x7f"
_COLLECTING_SECONDS = 0.01
# At DEBUG these print whole requests and answers, tokens included.
_TALKATIVE_LIBRARIES = ("aiohttp", "asyncio", "kubernetes_asyncio", "opentelemetry", "urllib3")


# The event is cut together with the fields, as if it were one; a field tells that any was.
_EVENT, _CUT = "message", "truncated"

_timestamp = SecondFormatter().with_milliseconds


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
    """Send everything to one stream (standard error unless told otherwise), in one format.

    The same warning is written `repeats_per_minute` times; 0 is no limit.
    """
    # No line of ours shows thread, process or source line, and finding them out costs as much as
    # everything else about a line (see "Optimization" in the logging HOWTO).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - documented there
    number = logging.getLevelNamesMapping()[level.upper()]
    line = _json_line if style == "json" else _text_line
    handler = _LineHandler(line, stream or sys.stderr, takes_info=number <= logging.INFO)
    handler.addFilter(RepeatFilter(repeats_per_minute, time.monotonic))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _TALKATIVE_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))


def suppressed_lines() -> int:
    """Return how many lines were not written because they repeat others."""
    filters = [one for handler in logging.getLogger().handlers for one in handler.filters]
    return sum(one.suppressed for one in filters if isinstance(one, RepeatFilter))


class AccessLogger:
    """Logs one event very often, without the cost of a log record for each line.

    The line is the same that a logger of this name writes at INFO.
    """

    __slots__ = ("_constant", "_event", "_logger")

    def __init__(self, name: str, event: str) -> None:
        self._logger = logging.getLogger(name)
        self._event = event
        self._constant = f'"level":"info","message":"{event}","logger":"{name}"'

    @property
    def is_enabled(self) -> bool:
        """Tell whether a line would be written."""
        return self._logger.isEnabledFor(logging.INFO)

    def write_json(self, moment: int, members: str) -> bool:
        """Write one line with these members, if lines are JSON and nobody else takes them."""
        handlers = logging.root.handlers
        handler = handlers[0] if len(handlers) == 1 else None
        if type(handler) is not _LineHandler or not handler.takes_json_lines:
            return False
        handler.add(f'{{"time":"{_timestamp(moment)}",{self._constant},{members}}}\n')
        return True

    def write(self, moment: int, values: dict[str, object]) -> None:
        """Write one line with these fields; ask `is_enabled` first."""
        handlers = logging.getLogger().handlers
        if len(handlers) == 1 and type(handlers[0]) is _LineHandler:
            handlers[0].write(_Fact(moment, "info", self._event, self._logger.name, values))
        else:
            # Somebody else listens as well, and expects records.
            self._logger.info(self._event, extra=fields(**values))


class _Fact(NamedTuple):
    """What one line says."""

    moment: int
    level: str
    event: str
    logger: str
    values: dict[str, object]
    exception: str | None = None


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes facts as lines, whether they come as records or not."""

    def __init__(self, line: Callable[[_Fact], str], stream: TextIO, *, takes_info: bool) -> None:
        super().__init__(stream)
        self._line = line
        # Whether an event that is said very often may be said without asking its logger.
        self.takes_json_lines = takes_info and line is _json_line
        self._waiting: deque[str] = deque()
        self._is_due = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record at once, after the lines that came before it."""
        self._write_waiting()
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line without its newline."""
        error = record.exc_info
        fact = _Fact(
            round(record.created * SECOND),
            record.levelname.lower(),
            record.getMessage(),
            record.name,
            getattr(record, FIELDS, {}),
            redacted_traceback(error[1]) if error and error[1] else None,
        )
        return self._bounded_line(fact)

    def write(self, fact: _Fact) -> None:
        """Write a fact as a line."""
        self.add(f"{self._bounded_line(fact)}\n")

    def _bounded_line(self, fact: _Fact) -> str:
        line = self._line(fact)
        return line if len(line) <= MAX_LINE_BYTES else self._line(_truncated(fact))

    def add(self, line: str) -> None:
        """Write a line with the others of the next moment, in one go.

        Requests would else each pay for a write of its own, which costs as much as its line.
        """
        self._waiting.append(line)
        if self._is_due:
            return
        try:
            asyncio.get_running_loop().call_later(_COLLECTING_SECONDS, self._write_waiting)
        except RuntimeError:
            self._write_waiting()  # Nobody turns a loop here.
        else:
            self._is_due = True

    def close(self) -> None:
        """Write what waits, and close."""
        self._write_waiting()
        super().close()

    def _write_waiting(self) -> None:
        """Write what waits; a log that cannot be written must not cost a request its answer."""
        self._is_due = False
        assert self.lock is not None  # every handler has one, until the interpreter ends
        with self.lock, suppress(OSError, ValueError):
            lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if lines:
                self.stream.write("".join(lines))
                self.stream.flush()


def _json_line(fact: _Fact) -> str:
    """Return one JSON object; JSON itself escapes what could forge a line."""
    line: dict[str, object] = {
        "time": _timestamp(fact.moment),
        "level": fact.level,
        "message": fact.event,
        "logger": fact.logger,
        **fact.values,
    }
    if fact.exception is not None:
        line["exception"] = fact.exception
    return _encode(line)


def _text_line(fact: _Fact) -> str:
    """Return time, level, event and key=value fields, quoted as JSON, so a line stays a line."""
    event = fact.event
    if not (event.isascii() and event.isprintable()):
        # Our own events are constant; a library's may hold what somebody sent.
        event = _encode(event)
    parts = [_timestamp(fact.moment), fact.level, event]
    parts += [f"{name}={_encode(value)}" for name, value in fact.values.items()]
    if fact.exception is not None:
        parts.append(_encode(fact.exception))
    return " ".join(parts)


def members(values: dict[str, object]) -> str:
    """Return fields as the members of a JSON object, as a line has them."""
    text, most = _encode(values), MAX_LINE_BYTES - _OWN_MEMBERS_BYTES
    return (text if len(text) <= most else _encode(_truncated_values(values, most)))[1:-1]


def _truncated(fact: _Fact) -> _Fact:
    """Return a fact whose line is no longer than one may be; its longest values are cut."""
    # The event, too, may repeat what somebody sent: those of libraries do.
    values: dict[str, object] = {**fact.values, _EVENT: fact.event}
    exception = fact.exception
    if exception is not None and _size(exception) > MAX_TRACEBACK_BYTES:
        # The end says what happened.
        end = longest_prefix(exception[::-1], MAX_TRACEBACK_BYTES - len(MARKER), _size)
        exception, values[_CUT] = MARKER + end[::-1], True
    most = MAX_LINE_BYTES - _FIXED_BYTES - len(fact.logger)
    if len(_encode(values)) > most:
        values = _truncated_values(values, most)
    return fact._replace(event=str(values.pop(_EVENT)), values=values, exception=exception)


def _truncated_values(values: dict[str, object], most: int) -> dict[str, object]:
    """Return values that take at most `most` bytes with their names, and say that they were cut.

    Short ones are kept. What these leave is shared by the longer ones.
    """
    sizes = {name: len(_encode(value)) for name, value in values.items()}
    left = most - sum(len(name) + len('"":,') for name in (*values, _CUT)) - len("true")
    kept = dict(values)
    for position, name in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        share = max(left // (len(sizes) - position), _LEAST_VALUE_BYTES)
        if sizes[name] > share:
            value = values[name]
            text = value if isinstance(value, str) else _encode(value)
            kept[name] = shortened(text, share - _QUOTES, size_of=_size)
        left -= min(sizes[name], share)
    return {**kept, _CUT: True}


def _size(text: str) -> int:
    return len(_encode(text)) - _QUOTES


def _encode(value: object) -> str:
    """Return JSON that a terminal can show: printable ASCII."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        return _encode_anything(value)
    # All other control characters are escaped. `isprintable` took 2 ms for a name of 64 KiB.
    return text if text.isascii() and _DELETE not in text else _encode_anything(value)
