"""The audit log file and its rotation: lines are written whole and in order, despite disk errors.

A partially written line stays first until its rest is written, so no other line interrupts it.
Everything here blocks and runs in the writer's thread only.
"""

import itertools
import os
import stat
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from proxy.audit.backends.log_rotation import (
    EXCLUSIVE,
    SHARED,
    is_current_file,
    lock,
    rotated_name,
)
from proxy.core.errors import OperatorError

STANDARD_OUTPUT = Path("-")
_STDOUT_DESCRIPTOR = 1
_MAX_WRITE_BYTES = 1 << 20
_ROTATION_RETRY_SECONDS = 60.0
_OPEN_ATTEMPTS = 100
_OPEN_RETRY_SECONDS = 0.01


class AuditFileError(OperatorError):
    """Raised when the audit file cannot be opened."""


class RotatingLogFile:
    """Appends lines, and starts a new file when the current one is full.

    Several processes may write to one file while one replaces the other. Each holds a shared lock,
    and only a process that can lock the file exclusively may rotate it.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = 0,
        when_rotated: Callable[[], None] = lambda: None,
        when_rotation_fails: Callable[[OSError], None] = lambda _error: None,
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._when_rotated = when_rotated
        self._when_rotation_fails = when_rotation_fails
        self._next_rotation = 0.0
        self._is_mid_line = False
        self._begins_mid_line = False
        try:
            self._switch_to(_STDOUT_DESCRIPTOR if path == STANDARD_OUTPUT else _open(path, 0o600))
        except OSError as error:
            raise AuditFileError(f"cannot write {path}: {error.strerror}") from error

    def write(self, lines: deque[bytes]) -> None:
        """Write the lines, removing each one once written; after an OSError the rest remains."""
        while lines:
            if self._is_full_for(lines[0]):
                self._rotate()
            if self._begins_mid_line:
                os.write(self._descriptor, b"\n")
                self._begins_mid_line = False
            self._write_chunk(lines)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor != _STDOUT_DESCRIPTOR:
            os.close(self._descriptor)

    def _switch_to(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self._descriptor = descriptor
        self._can_rotate = stat.S_ISREG(status.st_mode) and self._path != STANDARD_OUTPUT
        self._size = status.st_size if self._can_rotate else 0
        # A previous writer may have stopped within a line; the next line must not continue it.
        self._begins_mid_line = self._size > 0 and _last_byte(self._path) != b"\n"

    def _write_chunk(self, lines: deque[bytes]) -> None:
        limit = _MAX_WRITE_BYTES
        if self._max_bytes and self._can_rotate:
            limit = min(limit, self._max_bytes - self._size)
        everything = b"".join(lines)
        chunk = everything if len(everything) <= limit else b"".join(_fitting(lines, limit))
        written = os.write(self._descriptor, chunk)
        self._size += written
        if written == len(everything):
            lines.clear()
            written = 0
        while lines and written >= len(lines[0]):
            written -= len(lines.popleft())
        self._is_mid_line = written > 0
        if self._is_mid_line:
            lines[0] = lines[0][written:]

    def _is_full_for(self, line: bytes) -> bool:
        return (
            0 < self._max_bytes < self._size + len(line)
            and self._size > 0
            and self._can_rotate
            and not self._is_mid_line
            and time.monotonic() >= self._next_rotation
        )

    def _rotate(self) -> None:
        """Switch to a new file; if that fails, keep the old one and retry later."""
        old = self._descriptor
        try:
            self._switch_to(self._open_next())
        except OSError as error:
            # The failed attempt to lock the file exclusively may have lost the shared lock.
            lock(old, SHARED)
            self._next_rotation = time.monotonic() + _ROTATION_RETRY_SECONDS
            self._when_rotation_fails(error)
            return
        os.close(old)
        self._when_rotated()

    def _open_next(self) -> int:
        if not is_current_file(self._descriptor, self._path):
            # Another process has rotated it: the new file exists, or is created here.
            return _open(self._path, 0o600)
        if not lock(self._descriptor, EXCLUSIVE):
            # Another process would continue to write to a file that is compressed or deleted.
            raise BlockingIOError(None, "another process is writing to it")
        rotated = rotated_name(self._path, datetime.now(UTC))
        mode = stat.S_IMODE(os.fstat(self._descriptor).st_mode)
        self._path.rename(rotated)
        try:
            return _open(self._path, mode)
        except OSError:
            rotated.rename(self._path)
            raise


def _open(path: Path, mode: int) -> int:
    """Open a file for appending with a shared lock; raise BlockingIOError if it stays locked."""
    for _ in range(_OPEN_ATTEMPTS):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        # Another process may be rotating it right now: the next attempt opens the new file.
        if lock(descriptor, SHARED) and is_current_file(descriptor, path):
            return descriptor
        os.close(descriptor)
        time.sleep(_OPEN_RETRY_SECONDS)
    raise BlockingIOError(None, "another process has locked it")


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def _fitting(lines: deque[bytes], limit: int) -> list[bytes]:
    """Return the first line, and as many more as fit into the limit."""
    fitting = [lines[0]]
    limit -= len(lines[0])
    for line in itertools.islice(lines, 1, None):
        limit -= len(line)
        if limit < 0:
            break
        fitting.append(line)
    return fitting
