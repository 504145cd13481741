"""The audit file and its rotation: lines go out whole and in order, whatever the disk does.

A line that was written in part stays first until its rest is written, so nothing is cut off again
and nothing comes in between. Everything here blocks and belongs to the writer's thread.
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
    ALONE,
    SHARED,
    is_current_file,
    lock,
    rotated_name,
)
from proxy.core.errors import OperatorError

STANDARD_OUTPUT = Path("-")
_STDOUT_DESCRIPTOR = 1
_MOST_BYTES_AT_ONCE = 1 << 20
_NEXT_ROTATION_SECONDS = 60.0
_OPENING_TRIES = 100
_OPENING_SECONDS = 0.01


class AuditFileError(OperatorError):
    """The audit file cannot be opened."""


class RotatingLogFile:
    """Appends lines, and begins a new file when the old one is full.

    Several processes may write to one file while one takes over from the other: each holds a
    shared lock, and only who is alone with it may put it aside.
    """

    def __init__(
        self,
        path: Path,
        *,
        most_bytes: int = 0,
        when_put_aside: Callable[[], None] = lambda: None,
        when_rotation_fails: Callable[[OSError], None] = lambda _error: None,
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._when_put_aside = when_put_aside
        self._when_rotation_fails = when_rotation_fails
        self._next_rotation = 0.0
        self._is_mid_line = False
        self._begins_mid_line = False
        try:
            self._use(_STDOUT_DESCRIPTOR if path == STANDARD_OUTPUT else _opened(path, 0o600))
        except OSError as error:
            raise AuditFileError(f"cannot write {path}: {error.strerror}") from error

    def write(self, lines: deque[bytes]) -> None:
        """Write lines and take each away as it is written; after an OSError the rest is left."""
        while lines:
            if self._is_full_for(lines[0]):
                self._rotate()
            if self._begins_mid_line:
                os.write(self._descriptor, b"\n")
                self._begins_mid_line = False
            self._write_some(lines)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor != _STDOUT_DESCRIPTOR:
            os.close(self._descriptor)

    def _use(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        self._descriptor = descriptor
        self._can_rotate = stat.S_ISREG(found.st_mode) and self._path != STANDARD_OUTPUT
        self._size = found.st_size if self._can_rotate else 0
        # Somebody before us was cut off in a line; ours must not become a part of it.
        self._begins_mid_line = self._size > 0 and _last_byte(self._path) != b"\n"

    def _write_some(self, lines: deque[bytes]) -> None:
        room = _MOST_BYTES_AT_ONCE
        if self._most_bytes and self._can_rotate:
            room = min(room, self._most_bytes - self._size)
        whole = b"".join(lines)
        some = whole if len(whole) <= room else b"".join(_fitting(lines, room))
        written = os.write(self._descriptor, some)
        self._size += written
        if written == len(whole):
            lines.clear()
            written = 0
        while lines and written >= len(lines[0]):
            written -= len(lines.popleft())
        self._is_mid_line = written > 0
        if self._is_mid_line:
            lines[0] = lines[0][written:]

    def _is_full_for(self, line: bytes) -> bool:
        return (
            0 < self._most_bytes < self._size + len(line)
            and self._size > 0
            and self._can_rotate
            and not self._is_mid_line
            and time.monotonic() >= self._next_rotation
        )

    def _rotate(self) -> None:
        """Go on in a new file; where that cannot be had, in the old one, and try again later."""
        old = self._descriptor
        try:
            self._use(self._successor())
        except OSError as error:
            # The attempt to be alone with the file has changed our lock, or lost it.
            lock(old, SHARED)
            self._next_rotation = time.monotonic() + _NEXT_ROTATION_SECONDS
            self._when_rotation_fails(error)
            return
        os.close(old)
        self._when_put_aside()

    def _successor(self) -> int:
        if not is_current_file(self._descriptor, self._path):
            # Somebody else has put it aside: what we need is there, or will be made.
            return _opened(self._path, 0o600)
        if not lock(self._descriptor, ALONE):
            # Whoever shares the file would go on writing to what we compress or delete.
            raise BlockingIOError(None, "another process writes to it")
        aside = rotated_name(self._path, datetime.now(UTC))
        mode = stat.S_IMODE(os.fstat(self._descriptor).st_mode)
        self._path.rename(aside)
        try:
            return _opened(self._path, mode)
        except OSError:
            aside.rename(self._path)
            raise


def _opened(path: Path, mode: int) -> int:
    """Open a file to append to, with our lock on it; BlockingIOError if it cannot be had."""
    for _ in range(_OPENING_TRIES):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        # Another process may just be putting it aside: then the next try finds its successor.
        if lock(descriptor, SHARED) and is_current_file(descriptor, path):
            return descriptor
        os.close(descriptor)
        time.sleep(_OPENING_SECONDS)
    raise BlockingIOError(None, "another program has locked it")


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def _fitting(lines: deque[bytes], room: int) -> list[bytes]:
    """Return the first line, and as many more as there is room for."""
    fitting = [lines[0]]
    room -= len(lines[0])
    for line in itertools.islice(lines, 1, None):
        room -= len(line)
        if room < 0:
            break
        fitting.append(line)
    return fitting
