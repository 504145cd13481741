"""The audit trail as a file, written by a thread of its own: the event loop never waits for a disk.

What cannot be written stays in memory, up to the buffer's limits, and is tried again every second.
"""

import threading
import time
from collections.abc import Callable

from proxy.audit.backends.buffer import AuditCounter, BufferLimits, EventBuffer
from proxy.audit.backends.log_file import RotatingLogFile

_EVENTS_AT_ONCE = 10_000
_BYTES_AT_ONCE = 4 << 20
# After the first event others are waited for, so that under load the thread wakes twenty times a
# second and not for each of them: waking it, and having it want the interpreter, costs the event
# loop more than the event does.
_COLLECTING_SECONDS = 0.05
_RETRY_SECONDS = 1.0
_LAST_RETRIES_SECONDS = 0.1


class LogBackend:
    """Takes events, and writes them to a file as they come."""

    def __init__(
        self, open_file: Callable[[], RotatingLogFile], limits: BufferLimits, counter: AuditCounter
    ) -> None:
        self._open_file = open_file
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._deadline = 0.0
        self.backlog = EventBuffer("log", limits, counter, self._woken.set)
        self._writer: threading.Thread | None = None

    def start(self) -> None:
        """Open the file, and write from now on; OperatorError when it cannot be opened. Blocks."""
        file = self._open_file()
        self._writer = threading.Thread(
            target=self._run, args=(file,), name="audit-log", daemon=True
        )
        self._writer.start()

    def close(self, seconds: float) -> None:
        """Write what is waiting, and close; what cannot be written by then is lost.

        Blocks, so not for the event loop.
        """
        self._deadline = time.monotonic() + seconds
        self._closing.set()
        self._woken.set()
        while self._writer is not None and self._writer.is_alive():
            # Looks again and again, for it may be hurried, and a disk may never return.
            self._writer.join(_LAST_RETRIES_SECONDS)
            if time.monotonic() > self._deadline + 2 * _LAST_RETRIES_SECONDS:
                break
        self.backlog.discard_all("shutdown")

    def skip_flush(self) -> None:
        """Wait no longer while closing."""
        self._deadline = 0.0

    def _run(self, file: RotatingLogFile) -> None:
        is_writable = True
        while is_writable and not self._closing.is_set():
            if self.backlog.becomes_idle():
                self._woken.wait()
                self._woken.clear()
            self._closing.wait(_COLLECTING_SECONDS)
            is_writable = self._write_all(file)
        if is_writable:
            # What came between the last look and the signal.
            self._write_all(file)
        file.close()

    def _write_all(self, file: RotatingLogFile) -> bool:
        """Write what is waiting; return whether it was written in the end."""
        while lines := self.backlog.take(events=_EVENTS_AT_ONCE, size=_BYTES_AT_ONCE):
            count, size = len(lines), sum(map(len, lines))
            while lines:
                try:
                    file.write(lines)
                except OSError as error:
                    self.backlog.failed("write", error.strerror or str(error))
                    if not self._may_try_again():
                        rest = sum(map(len, lines))
                        self.backlog.stored(count - len(lines), size - rest, works=False)
                        return False
            self.backlog.stored(count, size)
        return True

    def _may_try_again(self) -> bool:
        if not self._closing.wait(_RETRY_SECONDS):
            return True
        time.sleep(_LAST_RETRIES_SECONDS)
        return time.monotonic() < self._deadline
