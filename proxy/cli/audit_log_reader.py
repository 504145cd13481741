"""Audit logs as they lie around: plain, compressed, rotated, on standard input."""

import gzip
import heapq
import io
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from proxy.analysis.audit_join.records import (
    AuditRecord,
    InvalidAuditEvent,
    read_record,
    read_time,
)
from proxy.core.errors import OperatorError

_GZIP_MAGIC = b"\x1f\x8b"
_BROKEN = (OSError, EOFError, zlib.error)


class AuditLogError(OperatorError):
    """A log cannot be read."""


class AuditLogEntry(NamedTuple):
    """What one event tells, when it was written, and by whom."""

    timestamp: float
    is_from_proxy: bool
    record: AuditRecord


class AuditLogReader:
    """Reads several logs side by side; each line that is no event is counted and left out."""

    def __init__(self, ours: list[Path], cluster: list[Path]) -> None:
        self._ours = ours
        self._cluster = cluster
        self.unreadable: dict[str, int] = {}

    def entries(self) -> Iterator[AuditLogEntry]:
        """Give the events of all logs, in about the order of their times."""
        with ExitStack() as files:
            logs = [(path, True) for path in self._ours] + [(path, False) for path in self._cluster]
            streams = [
                self._read(files.enter_context(open_log(path)), path, is_ours=is_ours)
                for path, is_ours in logs
            ]
            yield from heapq.merge(*streams, key=lambda entry: entry.timestamp)

    def _read(self, file: BinaryIO, path: Path, *, is_ours: bool) -> Iterator[AuditLogEntry]:
        for line in read_lines(file, path):
            entry = _entry(line, is_ours=is_ours)
            if entry is None:
                self.unreadable[str(path)] = self.unreadable.get(str(path), 0) + 1
            else:
                yield entry


def _entry(line: bytes, *, is_ours: bool) -> AuditLogEntry | None:
    try:
        event = json.loads(line)
        return AuditLogEntry(read_time(event), is_ours, read_record(event))
    except (ValueError, InvalidAuditEvent):
        return None


def read_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Give the lines of an opened log; `path` is named if it breaks off."""
    try:
        yield from file
    except _BROKEN as error:
        raise AuditLogError(f"cannot read {path}: {error}") from error


@contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """Open a log, whatever it is; the content tells whether it is compressed."""
    try:
        # The descriptor of standard input is not ours to close.
        is_input = path == Path("-")
        raw = io.FileIO(sys.stdin.fileno() if is_input else path, closefd=not is_input)
        file = io.BufferedReader(raw)
        is_packed = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
    except OSError as error:
        raise AuditLogError(f"cannot read {path}: {error.strerror}") from error
    with file:
        yield gzip.GzipFile(fileobj=file) if is_packed else file  # type: ignore[misc]  # it reads alike


_STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


def read_event(file: Path) -> dict[str, Any]:
    """Return the one event of a file: alone, the last of a list, or the last line of a log."""
    with open_log(file) as opened:
        content = b"".join(read_lines(opened, file)).strip()
    event = _parsed(content)
    if event is None:
        event = _parsed(content.rpartition(b"\n")[2])
    if event is not None and event.get("kind") == "EventList":
        items = event.get("items") or [None]
        event = items[-1]
    if not isinstance(event, dict):
        raise AuditLogError(f"{file} holds no audit event")
    return event


def find_event(audit_id: str, logs: list[Path]) -> dict[str, Any]:
    """Return the last event of a request, reading the logs once, line by line."""
    found: dict[str, Any] | None = None
    wanted = json.dumps(audit_id).encode()
    for log in logs:
        with open_log(log) as opened:
            for line in read_lines(opened, log):
                # Most lines are of other requests, and need not be parsed for that.
                if wanted not in line:
                    continue
                event = _parsed(line)
                if event is not None and event.get("auditID") == audit_id:
                    found = _later(found, event)
    if found is None:
        places = ", ".join(str(log) for log in logs)
        raise AuditLogError(f"no event in {places} has the id {audit_id}")
    return found


def _later(known: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any]:
    """Return the event that knows more; of two requests with one id, the one read last."""
    return event if known is None or _stage(event) >= _stage(known) else known


def _stage(event: dict[str, Any]) -> int:
    stage = event.get("stage")
    return _STAGES.index(stage) if stage in _STAGES else -1


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
