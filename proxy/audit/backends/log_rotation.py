"""Files that rotation has put aside: their names, and which of them are kept, and how.

The names are those of kube-apiserver's own: `audit-2026-11-16T04-00-00.000.log`, in UTC, and `.gz`
behind it once it is compressed.
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
ALONE = fcntl.LOCK_EX


def lock(descriptor: int, kind: int) -> bool:
    """Lock an open file, or tell that somebody else's lock is in the way; never waits.

    A failed attempt may cost the lock that was held before.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # Not every file system knows locks, and a device may not either.
    return True


def is_current_file(descriptor: int, path: Path) -> bool:
    """Tell whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


_STAMP = "%Y-%m-%dT%H-%M-%S.%f"
_DIGITS_TOO_MANY = 3
_COMPRESSED = ".gz"
_UNFINISHED = ".gz.part"
_NOT_PLAIN = frozenset((".gz", ".part"))
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What is kept of the files put aside; 0 keeps all."""

    days: int = 0
    files: int = 0
    compress: bool = False


class LogRetention:
    """Compresses and deletes what was put aside, in a thread of its own.

    A big file takes seconds, in which the writer's thread goes on writing.
    """

    def __init__(
        self, path: Path, keeping: RetentionPolicy, *, when_failed: Callable[[OSError], None]
    ) -> None:
        self._path = path
        self._keeping = keeping
        self._when_failed = when_failed
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-files", daemon=True)
        self._thread.start()

    def apply(self) -> None:
        """Look at the files soon; returns at once."""
        self._due.set()

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            try:
                tidy(self._path, self._keeping, now=datetime.now(UTC))
            except OSError as error:
                self._when_failed(error)


def rotated_name(path: Path, now: datetime) -> Path:
    """Return a name that no file has, and that sorts after those given before."""
    moment = now
    while True:
        stamp = moment.strftime(_STAMP)[:-_DIGITS_TOO_MANY]
        aside = path.with_name(f"{path.stem}-{stamp}{path.suffix}")
        if not aside.exists() and not aside.with_name(aside.name + _COMPRESSED).exists():
            return aside
        moment += timedelta(milliseconds=1)


def tidy(path: Path, keeping: RetentionPolicy, *, now: datetime) -> None:
    """Delete what is too old or too much, and compress the rest if that is wanted."""
    aside = sorted(_put_aside(path).items(), reverse=True)
    oldest = now - timedelta(days=keeping.days)
    kept: list[Path] = []
    for number, (moment, files) in enumerate(aside, 1):
        is_too_much = 0 < keeping.files < number
        if is_too_much or (keeping.days and moment < oldest):
            for file in files:
                file.unlink(missing_ok=True)
        else:
            kept += files
    # Only now: what was deleted may be the room that is needed.
    if keeping.compress:
        for file in kept:
            if file.suffix not in _NOT_PLAIN:
                _compress(file)


def _put_aside(path: Path) -> dict[datetime, list[Path]]:
    """Return the files put aside by when they were, half-made ones included."""
    stem, suffix = re.escape(path.stem), re.escape(path.suffix)
    pattern = re.compile(rf"{stem}-([-0-9T.]{{23}}){suffix}(\.gz|\.gz\.part)?")
    found: dict[datetime, list[Path]] = {}
    for file in path.parent.iterdir():
        match = pattern.fullmatch(file.name)
        if match is None:
            continue
        try:
            moment = datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC)
        except ValueError:
            continue
        found.setdefault(moment, []).append(file)
    return found


def _compress(file: Path) -> None:
    """Put a compressed file in the place of a plain one; there is always a whole one."""
    with contextlib.suppress(FileNotFoundError), file.open("rb") as plain:
        # Another process may be at it, or still write to it; or it is done in the meantime.
        if not lock(plain.fileno(), ALONE) or not is_current_file(plain.fileno(), file):
            return
        unfinished = file.with_name(file.name + _UNFINISHED)
        try:
            _pack(plain, unfinished)
            unfinished.rename(file.with_name(file.name + _COMPRESSED))
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        file.unlink()


def _pack(plain: BinaryIO, target: Path) -> None:
    mode = stat.S_IMODE(os.fstat(plain.fileno()).st_mode)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw) as packed:
            shutil.copyfileobj(plain, packed, _PIECE_BYTES)
        raw.flush()
        os.fsync(descriptor)
