"""Reading of audit logs: plain, compressed, rotated, or from standard input."""

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
    read_record,
    read_time,
)
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.errors import OperatorError

_GZIP_MAGIC = b"\x1f\x8b"
_BROKEN = (OSError, EOFError, zlib.error)


class AuditLogError(OperatorError):
    """An audit log cannot be read."""


class AuditLogEntry(NamedTuple):
    """One audit event with its time, and whether the proxy wrote it."""

    timestamp: float
    is_from_proxy: bool
    record: AuditRecord


class AuditLogReader:
    """Reads several logs in parallel; lines that are not audit events are counted and skipped."""

    def __init__(self, proxy_logs: list[Path], cluster_logs: list[Path]) -> None:
        self._proxy_logs = proxy_logs
        self._cluster_logs = cluster_logs
        self.unreadable: dict[str, int] = {}

    def entries(self) -> Iterator[AuditLogEntry]:
        """Yield the events of all logs, approximately in order of time."""
        with ExitStack() as files:
            logs = [(path, True) for path in self._proxy_logs]
            logs += [(path, False) for path in self._cluster_logs]
            streams = [
                self._read(files.enter_context(open_log(path)), path, is_from_proxy=is_from_proxy)
                for path, is_from_proxy in logs
            ]
            yield from heapq.merge(*streams, key=lambda entry: entry.timestamp)

    def _read(self, file: BinaryIO, path: Path, *, is_from_proxy: bool) -> Iterator[AuditLogEntry]:
        for line in read_lines(file, path):
            entry = _entry(line, is_from_proxy=is_from_proxy)
            if entry is None:
                self.unreadable[str(path)] = self.unreadable.get(str(path), 0) + 1
            else:
                yield entry


def _entry(line: bytes, *, is_from_proxy: bool) -> AuditLogEntry | None:
    try:
        event = json.loads(line)
        return AuditLogEntry(read_time(event), is_from_proxy, read_record(event))
    except (ValueError, InvalidAuditEvent):
        return None


def read_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of an open log; errors name `path`."""
    try:
        yield from file
    except _BROKEN as error:
        raise AuditLogError(f"cannot read {path}: {error}") from error


@contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """Open a log, compressed or not, as detected from its content."""
    try:
        # Standard input must stay open.
        is_input = path == Path("-")
        raw = io.FileIO(sys.stdin.fileno() if is_input else path, closefd=not is_input)
        file = io.BufferedReader(raw)
        is_compressed = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
    except OSError as error:
        raise AuditLogError(f"cannot read {path}: {error.strerror}") from error
    with file:
        yield gzip.GzipFile(fileobj=file) if is_compressed else file  # type: ignore[misc]  # same interface


_STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


def read_event(file: Path) -> dict[str, Any]:
    """Return the event of a file: a single one, the last of a list, or the last line of a log."""
    with open_log(file) as opened:
        content = b"".join(read_lines(opened, file)).strip()
    event = _parse_event(content)
    if event is None:
        event = _parse_event(content.rpartition(b"\n")[2])
    if event is not None and event.get("kind") == "EventList":
        items = event.get("items") or [None]
        event = items[-1]
    if not isinstance(event, dict):
        raise AuditLogError(f"{file} contains no audit event")
    return event


def find_event(audit_id: str, logs: list[Path]) -> dict[str, Any]:
    """Return the last event of a request, reading the logs once, line by line."""
    found: dict[str, Any] | None = None
    wanted = json.dumps(audit_id).encode()
    for log in logs:
        with open_log(log) as opened:
            for line in read_lines(opened, log):
                # Most lines belong to other requests and are not parsed.
                if wanted not in line:
                    continue
                event = _parse_event(line)
                if event is not None and event.get("auditID") == audit_id:
                    found = _latest(found, event)
    if found is None:
        places = ", ".join(str(log) for log in logs)
        raise AuditLogError(f"no event in {places} has the audit ID {audit_id}")
    return found


def _latest(known: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any]:
    """Return the event of the later stage; of two requests with one ID, the one read last."""
    return event if known is None or _stage(event) >= _stage(known) else known


def _stage(event: dict[str, Any]) -> int:
    stage = event.get("stage")
    return _STAGES.index(stage) if stage in _STAGES else -1


def _parse_event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
