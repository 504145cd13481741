"""Where audit events go: a file, one event a line, written by a thread of its own.

The event loop never waits for a disk. Lines go out whole and in order; stopping writes what is
still waiting.
"""

import logging
import os
import queue
import threading
from pathlib import Path

from proxy.core.errors import SetupError
from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)


class AuditFileError(SetupError):
    """The audit file cannot be opened."""


class AuditFile:
    """Appends lines to a file that only we can read."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise AuditFileError(f"cannot write {path}: {error.strerror}") from error
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="audit", daemon=True)
        self._writer.start()

    def write(self, line: bytes) -> None:
        """Take one line; returns at once."""
        self._lines.put(line)

    def close(self) -> None:
        """Write what is waiting and close. Blocks, so not for the event loop."""
        self._lines.put(None)
        self._writer.join()
        os.close(self._descriptor)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write_whole(line)
            except OSError as error:
                log.error("audit event lost", extra=fields(reason=error.strerror))  # noqa: TRY400 - the reason says it all

    def _write_whole(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
