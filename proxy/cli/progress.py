"""How far a long reading has come: one line on a terminal, nothing anywhere else."""

import os
from collections.abc import Callable
from typing import BinaryIO, TextIO

_BAR_WIDTH = 30
_REDRAW_SECONDS = 0.2
_MEGABYTE = 1 << 20


class Progress:
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

    def tell(self, file: BinaryIO, events: int) -> None:
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
