"""Rotated log files: their names, file locks, retention and compression.

The names follow kube-apiserver: `audit-2026-11-16T04-00-00.000.log`, in UTC, with the suffix `.gz`
once compressed.
"""

import contextlib
import fcntl
import gzip
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX


def lock(descriptor: int, kind: int) -> bool:
    """Lock an open file; return False if another process holds a conflicting lock. Never waits.

    A failed attempt may release the lock that was held before.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # Some file systems and devices do not support locks.
    return True


def is_current_file(descriptor: int, path: Path) -> bool:
    """Return whether an open file is the one that has this path now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


_STAMP = "%Y-%m-%dT%H-%M-%S.%f"
_MICROSECOND_DIGITS = 3
_COMPRESSED = ".gz"
_UNFINISHED = ".gz.part"
_COMPRESSED_SUFFIXES = frozenset((".gz", ".part"))
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Which rotated files are kept; 0 means no limit."""

    days: int = 0
    files: int = 0
    compress: bool = False


class LogRetention:
    """Compresses and deletes rotated files in its own thread.

    A large file takes seconds, during which the writer's thread continues to write.
    """

    def __init__(
        self, path: Path, policy: RetentionPolicy, *, when_failed: Callable[[OSError], None]
    ) -> None:
        self._path = path
        self._policy = policy
        self._when_failed = when_failed
        self._requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-files", daemon=True)
        self._thread.start()

    def apply(self) -> None:
        """Schedule the retention run; never blocks."""
        self._requested.set()

    def _run(self) -> None:
        while True:
            self._requested.wait()
            self._requested.clear()
            try:
                apply_retention(self._path, self._policy, now=datetime.now(UTC))
            except OSError as error:
                self._when_failed(error)


def rotated_name(path: Path, now: datetime) -> Path:
    """Return an unused path that sorts after all earlier ones."""
    timestamp = now
    while True:
        stamp = timestamp.strftime(_STAMP)[:-_MICROSECOND_DIGITS]
        rotated = path.with_name(f"{path.stem}-{stamp}{path.suffix}")
        if not rotated.exists() and not rotated.with_name(rotated.name + _COMPRESSED).exists():
            return rotated
        timestamp += timedelta(milliseconds=1)


def apply_retention(path: Path, policy: RetentionPolicy, *, now: datetime) -> None:
    """Delete rotated files that are too old or too many; compress the rest if configured."""
    rotated = sorted(_rotated_files(path).items(), reverse=True)
    oldest = now - timedelta(days=policy.days)
    kept: list[Path] = []
    for number, (rotated_at, files) in enumerate(rotated, 1):
        is_surplus = 0 < policy.files < number
        if is_surplus or (policy.days and rotated_at < oldest):
            for file in files:
                file.unlink(missing_ok=True)
        else:
            kept += files
    # After the deletion: compressing may need the disk space that it has freed.
    if policy.compress:
        for file in kept:
            if file.suffix not in _COMPRESSED_SUFFIXES:
                _compress(file)


def _rotated_files(path: Path) -> dict[datetime, list[Path]]:
    """Return the rotated files by their timestamp, including partially compressed ones."""
    stem, suffix = re.escape(path.stem), re.escape(path.suffix)
    pattern = re.compile(rf"{stem}-([-0-9T.]{{23}}){suffix}(\.gz|\.gz\.part)?")
    found: dict[datetime, list[Path]] = {}
    for file in path.parent.iterdir():
        match = pattern.fullmatch(file.name)
        if match is None:
            continue
        try:
            rotated_at = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
        except ValueError:
            continue
        found.setdefault(rotated_at, []).append(file)
    return found


def _compress(file: Path) -> None:
    """Replace a plain file with a compressed one; a complete file exists at any time."""
    with contextlib.suppress(FileNotFoundError), file.open("rb") as plain:
        # Another process may be compressing it, may still write to it, or may have replaced it.
        if not lock(plain.fileno(), EXCLUSIVE) or not is_current_file(plain.fileno(), file):
            return
        unfinished = file.with_name(file.name + _UNFINISHED)
        try:
            _gzip(plain, unfinished)
            unfinished.rename(file.with_name(file.name + _COMPRESSED))
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        file.unlink()


def _gzip(plain: BinaryIO, target: Path) -> None:
    mode = stat.S_IMODE(os.fstat(plain.fileno()).st_mode)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw) as packed:
            shutil.copyfileobj(plain, packed, _COPY_BYTES)
        raw.flush()
        os.fsync(descriptor)
