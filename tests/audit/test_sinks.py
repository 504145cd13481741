import stat
import threading
from pathlib import Path

import pytest

from proxy.audit.sinks import AuditFile, AuditFileError


def test_lines_are_appended_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"before\n")
    file = AuditFile(path)

    for number in range(1000):
        file.write(b"line %d\n" % number)
    file.close()

    lines = path.read_bytes().splitlines()
    assert lines == [b"before", *(b"line %d" % number for number in range(1000))]


def test_lines_of_several_threads_are_never_split(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(path)

    def write(letter: bytes) -> None:
        for _ in range(200):
            file.write(letter * 5000 + b"\n")

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()

    lines = path.read_bytes().splitlines()
    assert len(lines) == 600
    assert {bytes(set(line)) for line in lines} == {b"a", b"b", b"c"}


def test_nobody_else_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    AuditFile(path).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_path_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(AuditFileError, match=r"cannot write .*: No such file or directory"):
        AuditFile(tmp_path / "missing" / "audit.log")


def test_a_full_disk_loses_events_loudly_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    file = AuditFile(Path("/dev/full"))

    file.write(b"line\n")
    file.close()

    assert [record.message for record in caplog.records] == ["audit event lost"]
