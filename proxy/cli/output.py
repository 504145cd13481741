"""How far a long reading has come: one line on a terminal, nothing anywhere else."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO

from proxy.core.errors import OperatorError

# The collector is another user, and nothing in it is secret. Our umask has no say.
_MODE = 0o644


class MetricsFileError(OperatorError):
    """The metrics cannot be written."""


def write_metrics(path: Path, page: bytes) -> None:
    """Put a page in the place of the one before; whoever reads finds a whole one, old or new."""
    try:
        # A device, or a link to one, would be replaced and not written to.
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise MetricsFileError(f"cannot write {path}: not a regular file")
        _replace(path, page)
    except OSError as error:
        raise MetricsFileError(f"cannot write {path}: {error.strerror}") from error


def _replace(path: Path, page: bytes) -> None:
    # Beside it, for only there is a rename atomic. The name does not end as the collector's files
    # do, so that an unfinished one is never read, and nobody can foresee it.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(page)
            os.fchmod(file.fileno(), _MODE)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


_BAR_WIDTH = 30
_REDRAW_SECONDS = 0.2
_MEGABYTE = 1 << 20


class ProgressBar:
    """Draws a bar over several files by the bytes read of them, compressed or not."""

    def __init__(self, stream: TextIO, total_bytes: int | None, clock: Callable[[], float]) -> None:
        """Without a total, as of a pipe, only the amount is told."""
        self._stream = stream
        self._is_shown = stream.isatty()
        self._total = total_bytes
        self._clock = clock
        self._started = clock()
        self._next = self._started + _REDRAW_SECONDS
        self._done = 0

    def update(self, file: BinaryIO, events: int) -> None:
        """Show where the reading of this file is, if it is time to."""
        if not self._is_shown or self._clock() < self._next:
            return
        self._next = self._clock() + _REDRAW_SECONDS
        self._draw(self._done + position_of(file), events)

    def finished(self, file: BinaryIO) -> None:
        """Count a whole file as read."""
        self._done += position_of(file)

    def close(self) -> None:
        """Take the line away."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self, done: int, events: int) -> None:
        seconds = max(self._clock() - self._started, _REDRAW_SECONDS)
        told = f"{events} events, {done / _MEGABYTE:.0f} MB, {events / seconds:.0f}/s"
        if self._total:
            part = min(done / self._total, 1.0)
            bar = "#" * round(part * _BAR_WIDTH)
            left = seconds / part - seconds if part else 0.0
            told = f"[{bar:.<{_BAR_WIDTH}}] {part:4.0%}  {told}, {left:.0f} s left"
        self._stream.write(f"\r{told}\x1b[K")
        self._stream.flush()


def position_of(file: BinaryIO) -> int:
    """Return how many bytes were taken from the file itself; 0 where that cannot be told."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return 0
