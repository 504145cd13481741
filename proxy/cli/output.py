"""Output of long-running commands: a metrics file, and a progress bar on a terminal."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO

from proxy.core.errors import OperatorError

# The collector runs as another user, and the file has no secrets. The umask is ignored.
_MODE = 0o644


class MetricsFileError(OperatorError):
    """The metrics file cannot be written."""


def write_metrics(path: Path, page: bytes) -> None:
    """Replace the metrics file atomically: a reader sees the whole old or new page."""
    try:
        # A device, or a link to one, would be replaced instead of written to.
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise MetricsFileError(f"cannot write {path}: not a regular file")
        _replace(path, page)
    except OSError as error:
        raise MetricsFileError(f"cannot write {path}: {error.strerror}") from error


def _replace(path: Path, page: bytes) -> None:
    # In the same directory, because a rename is atomic only there. The name lacks the suffix of the
    # collector's files, so an unfinished file is never read. It is also unpredictable.
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
    """Draws a progress bar over several files by bytes read, compressed or not."""

    def __init__(self, stream: TextIO, total_bytes: int | None, clock: Callable[[], float]) -> None:
        """Without a total, as for a pipe, only the amount is shown."""
        self._stream = stream
        self._is_shown = stream.isatty()
        self._total = total_bytes
        self._clock = clock
        self._started = clock()
        self._next = self._started + _REDRAW_SECONDS
        self._done = 0

    def update(self, file: BinaryIO, events: int) -> None:
        """Redraw the progress of this file, if the interval has passed."""
        if not self._is_shown or self._clock() < self._next:
            return
        self._next = self._clock() + _REDRAW_SECONDS
        self._draw(self._done + file_position(file), events)

    def finish_file(self, file: BinaryIO) -> None:
        """Count a whole file as read."""
        self._done += file_position(file)

    def close(self) -> None:
        """Clear the line."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self, done: int, events: int) -> None:
        seconds = max(self._clock() - self._started, _REDRAW_SECONDS)
        text = f"{events} events, {done / _MEGABYTE:.0f} MB, {events / seconds:.0f}/s"
        if self._total:
            part = min(done / self._total, 1.0)
            bar = "#" * round(part * _BAR_WIDTH)
            left = seconds / part - seconds if part else 0.0
            text = f"[{bar:.<{_BAR_WIDTH}}] {part:4.0%}  {text}, {left:.0f} s left"
        self._stream.write(f"\r{text}\x1b[K")
        self._stream.flush()


def file_position(file: BinaryIO) -> int:
    """Return the number of bytes read from the file itself; 0 if unknown."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return 0
