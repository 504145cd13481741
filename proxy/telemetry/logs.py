"""Our own log: one line per fact, JSON for machines or text for people.

An event is a constant text, everything variable is a field. Fields are values we name one by one,
never headers, bodies or exceptions of other libraries that might carry a secret.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

_FIELDS = "understudy_fields"

# Made once: `json.dumps` makes a new encoder for each call that has an option.
_encode = json.JSONEncoder(default=str).encode

# At DEBUG these print whole requests and answers, tokens included.
_TALKATIVE_LIBRARIES = ("aiohttp", "asyncio", "kubernetes_asyncio", "urllib3")


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return the `extra` of a log call that adds fields to its line."""
    return {_FIELDS: values}


def configure_logs(
    *, style: Literal["json", "text"], level: str, stream: TextIO | None = None
) -> None:
    """Send everything to one stream (standard error unless told otherwise), in one format."""
    # No line of ours shows thread, process or source line, and finding them out costs as much as
    # everything else about a line (see "Optimization" in the logging HOWTO).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - documented there
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if style == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _TALKATIVE_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))


class _JsonFormatter(logging.Formatter):
    """One JSON object a line; JSON itself escapes what could forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its newline."""
        line: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
        }
        line.update(getattr(record, _FIELDS, {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encode(line)


class _TextFormatter(logging.Formatter):
    """Time, level, event and key=value fields; values quoted as JSON, so a line stays a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its newline."""
        message = record.getMessage()
        if not (message.isascii() and message.isprintable()):
            # Our own events are constant; a library's may hold what somebody sent.
            message = json.dumps(message)
        parts = [_timestamp(record), record.levelname.lower(), message]
        values: dict[str, object] = getattr(record, _FIELDS, {})
        parts += [f"{name}={_encode(value)}" for name, value in values.items()]
        if record.exc_info:
            parts.append(json.dumps(self.formatException(record.exc_info)))
        return " ".join(parts)


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
