"""Audit backend that writes to a file in its own thread, so the event loop never waits for a disk.

Events that cannot be written stay in memory, up to the buffer's limits, and are retried every
second.
"""

import threading
import time
from collections.abc import Callable

from proxy.audit.backends.buffer import BufferLimits, EventBuffer
from proxy.audit.backends.log_file import RotatingLogFile
from proxy.telemetry.metrics.audit import AuditMetrics

_EVENTS_PER_WRITE = 10_000
_BYTES_PER_WRITE = 4 << 20
# After the first event the thread waits for more. Under load it then wakes twenty times a second
# and not once per event. Waking it, and its contention for the interpreter lock, costs the event
# loop more than the event itself.
_COLLECTING_SECONDS = 0.05
_RETRY_SECONDS = 1.0
_CLOSING_RETRY_SECONDS = 0.1


class LogBackend:
    """Buffers events, and writes them to a file in order."""

    def __init__(
        self, open_file: Callable[[], RotatingLogFile], limits: BufferLimits, metrics: AuditMetrics
    ) -> None:
        self._open_file = open_file
        self._wake_event = threading.Event()
        self._closing = threading.Event()
        self._deadline = 0.0
        self.buffer = EventBuffer("log", limits, metrics, self._wake_event.set)
        self._writer: threading.Thread | None = None

    def start(self) -> None:
        """Open the file and start writing; raise OperatorError if it cannot be opened. Blocks."""
        file = self._open_file()
        self._writer = threading.Thread(
            target=self._run, args=(file,), name="audit-log", daemon=True
        )
        self._writer.start()

    def close(self, seconds: float) -> None:
        """Write the buffered events, and close; events not written within `seconds` are lost.

        Blocks: never call it on the event loop.
        """
        self._deadline = time.monotonic() + seconds
        self._closing.set()
        self._wake_event.set()
        while self._writer is not None and self._writer.is_alive():
            # Polls the deadline: `skip_flush` may shorten it, and a disk write may never return.
            self._writer.join(_CLOSING_RETRY_SECONDS)
            if time.monotonic() > self._deadline + 2 * _CLOSING_RETRY_SECONDS:
                break
        self.buffer.discard_all("shutdown")

    def skip_flush(self) -> None:
        """End the wait of `close`."""
        self._deadline = 0.0

    def _run(self, file: RotatingLogFile) -> None:
        is_writable = True
        while is_writable and not self._closing.is_set():
            if self.buffer.mark_idle():
                self._wake_event.wait()
                self._wake_event.clear()
            self._closing.wait(_COLLECTING_SECONDS)
            is_writable = self._write_all(file)
        if is_writable:
            # Events added between the last write and the closing signal.
            self._write_all(file)
        file.close()

    def _write_all(self, file: RotatingLogFile) -> bool:
        """Write all buffered events; return False if the backend is closing and they cannot be."""
        while lines := self.buffer.take(events=_EVENTS_PER_WRITE, size=_BYTES_PER_WRITE):
            count, size = len(lines), sum(map(len, lines))
            while lines:
                try:
                    file.write(lines)
                except OSError as error:
                    self.buffer.mark_failed("write", error.strerror or str(error))
                    if not self._may_retry():
                        rest = sum(map(len, lines))
                        self.buffer.mark_stored(count - len(lines), size - rest, works=False)
                        return False
            self.buffer.mark_stored(count, size)
        return True

    def _may_retry(self) -> bool:
        if not self._closing.wait(_RETRY_SECONDS):
            return True
        time.sleep(_CLOSING_RETRY_SECONDS)
        return time.monotonic() < self._deadline
