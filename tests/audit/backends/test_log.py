import os
import time
from pathlib import Path

import pytest

from proxy.audit.backends.buffer import BackendMode, BufferLimits
from proxy.audit.backends.log import LogBackend
from proxy.audit.backends.log_file import RotatingLogFile
from tests.audit.counting import Counts, limits
from tests.support.impersonation import poll


def started(
    file: RotatingLogFile | Path, counts: Counts | None = None, limit: BufferLimits | None = None
) -> LogBackend:
    def open_file() -> RotatingLogFile:
        return RotatingLogFile(file) if isinstance(file, Path) else file

    backend = LogBackend(open_file, limit or limits(), counts or Counts())
    backend.start()
    return backend


def test_everything_is_written_before_it_is_closed(tmp_path: Path) -> None:
    path, counts = tmp_path / "audit.log", Counts()
    backend = started(path, counts, limits(events=10_000))

    for number in range(5000):
        backend.buffer.write(b"line %d\n" % number)
    backend.close(10)

    assert path.read_bytes().splitlines() == [b"line %d" % number for number in range(5000)]
    assert (counts.stored, counts.lost) == (5000, {})


def test_an_event_is_written_soon_without_others(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    backend = started(path)

    for expected in (b"a\n", b"a\nb\n"):
        backend.buffer.write(expected[-2:])
        poll(lambda whole=expected: path.read_bytes() == whole, "it was not written")  # type: ignore[misc]

    backend.close(1)


def test_what_a_full_disk_refuses_is_kept_tried_again_and_lost_loudly_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = Counts()
    backend = started(Path("/dev/full"), counts, limits(events=3))

    for _ in range(5):
        backend.buffer.write(b"line\n")
    poll(lambda: counts.failures["write"] >= 2, "it was not tried again")
    assert backend.buffer.is_failing
    backend.close(0.3)

    assert counts.lost == {"buffer-full": 2, "shutdown": 3}
    assert counts.stored == 0
    assert "audit events lost" in [record.message for record in caplog.records]


class TroubledFile(RotatingLogFile):
    """A disk that is full for a while."""

    is_full = True

    def write(self, lines):  # type: ignore[no-untyped-def]
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(lines)


def test_after_trouble_everything_is_there_in_order(tmp_path: Path) -> None:
    file, counts = TroubledFile(tmp_path / "audit.log"), Counts()
    backend = started(file, counts, limits(BackendMode.BLOCKING_STRICT))

    for number in range(100):
        backend.buffer.write(b"%d\n" % number)
    poll(lambda: backend.buffer.is_failing, "no trouble was noticed")
    file.is_full = False
    poll(lambda: not backend.buffer.is_failing, "its end was not noticed")
    backend.close(1)

    written = (tmp_path / "audit.log").read_bytes()
    assert written == b"".join(b"%d\n" % number for number in range(100))
    assert (counts.stored, counts.lost) == (100, {})


def test_a_reader_that_takes_nothing_does_not_keep_us_from_ending(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    counts = Counts()
    backend = started(tmp_path / "pipe", counts, limits(events=10_000, size=10**7))

    for _ in range(2000):
        backend.buffer.write(b"x" * 999 + b"\n")
    began = time.monotonic()
    backend.close(0.5)

    assert time.monotonic() - began < 5
    assert counts.lost == {"shutdown": 2000}
    os.close(reading)


def test_the_thread_ends_with_it(tmp_path: Path) -> None:
    backend = started(tmp_path / "audit.log")

    backend.close(1)

    assert backend._writer is not None
    assert not backend._writer.is_alive()


def test_what_was_never_started_can_be_closed(tmp_path: Path) -> None:
    counts = Counts()
    backend = LogBackend(lambda: RotatingLogFile(tmp_path / "audit.log"), limits(), counts)

    backend.buffer.write(b"line\n")
    backend.close(1)

    assert counts.lost == {"shutdown": 1}
