import multiprocessing
import os
import resource
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.audit.backends.log_file import AuditFileError, RotatingLogFile


class Calls:
    def __init__(self) -> None:
        self.rotations = 0
        self.errors: list[OSError] = []

    def rotated(self) -> None:
        self.rotations += 1

    def failed(self, error: OSError) -> None:
        self.errors.append(error)


def opened(path: Path, calls: Calls | None = None, *, most_bytes: int = 0) -> RotatingLogFile:
    calls = calls or Calls()
    return RotatingLogFile(
        path,
        max_bytes=most_bytes,
        when_rotated=calls.rotated,
        when_rotation_fails=calls.failed,
    )


def lines_in(directory: Path) -> list[bytes]:
    """Return every line of the file and of those put aside, in order."""
    files = [*sorted(directory.glob("audit-*.log")), directory / "audit.log"]
    return [line for file in files for line in file.read_bytes().splitlines(keepends=True)]


@contextmanager
def no_file_bigger_than(size: int) -> Iterator[None]:
    """Let every file of this process end there: what is beyond is written short, or not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def numbered(count: int, width: int = 20) -> list[bytes]:
    return [b"%0*d\n" % (width - 1, number) for number in range(count)]


def test_lines_are_appended_in_order_after_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"before\n")
    file, lines = opened(path), deque(numbered(1000))

    file.write(lines)
    file.close()

    assert lines_in(tmp_path) == [b"before\n", *numbered(1000)]
    assert not lines


def test_a_line_that_was_cut_off_before_us_stays_alone(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b'{"kind":"Ev')

    opened(tmp_path / "audit.log").write(deque([b"one\n", b"two\n"]))

    assert lines_in(tmp_path) == [b'{"kind":"Ev\n', b"one\n", b"two\n"]


def test_nobody_else_can_read_a_new_file_and_its_successors_are_like_the_first(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.log"

    file = opened(path, most_bytes=30)
    file.write(deque(numbered(3)))
    file.close()
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    path.chmod(0o640)
    opened(path, most_bytes=30).write(deque(numbered(1)))

    assert modes == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len(list(tmp_path.iterdir())) == 4


def test_a_path_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(AuditFileError, match=r"cannot write .*: No such file or directory"):
        opened(tmp_path / "missing" / "audit.log")


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    file = opened(Path("-"), most_bytes=10)

    file.write(deque(numbered(3)))
    file.close()

    assert capfdbinary.readouterr().out == b"".join(numbered(3))


@pytest.mark.parametrize("most_bytes", [1, 19, 20, 21, 100, 1000])
def test_rotation_loses_and_splits_no_line_and_keeps_to_the_size(
    tmp_path: Path, most_bytes: int
) -> None:
    calls = Calls()
    file = opened(tmp_path / "audit.log", calls, most_bytes=most_bytes)

    for line in numbered(100):
        file.write(deque([line]))
    file.write(deque(numbered(100)))
    file.close()

    assert lines_in(tmp_path) == numbered(100) * 2
    sizes = [one.stat().st_size for one in tmp_path.iterdir()]
    assert max(sizes) <= max(most_bytes, 20)
    assert min(sizes) > 0
    assert calls.rotations == len(sizes) - 1


def test_a_line_bigger_than_a_file_may_be_has_one_of_its_own(tmp_path: Path) -> None:
    lines = [b"a\n", b"b" * 500 + b"\n", b"c\n"]

    opened(tmp_path / "audit.log", most_bytes=100).write(deque(lines))

    assert lines_in(tmp_path) == lines
    assert len(list(tmp_path.iterdir())) == 3


def test_a_disk_that_fills_up_in_a_line_gets_its_rest_later_and_nothing_twice(
    tmp_path: Path,
) -> None:
    file, lines = opened(tmp_path / "audit.log", most_bytes=1000), deque(numbered(10))

    with no_file_bigger_than(90):
        for _ in range(3):
            with pytest.raises(OSError, match="File too large"):
                file.write(lines)
        written = (tmp_path / "audit.log").read_bytes()
    lines.append(b"later\n")
    file.write(lines)

    assert written == b"".join(numbered(10))[:90]
    assert lines_in(tmp_path) == [*numbered(10), b"later\n"]


def test_a_file_is_never_put_aside_in_the_middle_of_a_line(tmp_path: Path) -> None:
    big = b"x" * 499 + b"\n"
    file, lines = opened(tmp_path / "audit.log", most_bytes=100), deque([big, b"small\n"])

    with no_file_bigger_than(90), pytest.raises(OSError, match="File too large"):
        file.write(lines)
    file.write(lines)

    assert lines_in(tmp_path) == [big, b"small\n"]
    assert len(list(tmp_path.iterdir())) == 2


def test_where_no_new_file_can_be_made_the_old_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls()
    file = opened(tmp_path / "audit.log", calls, most_bytes=100)
    real_open = os.open

    def no_space(path: object, *arguments: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", no_space)
    file.write(deque(numbered(20)))
    monkeypatch.setattr(os, "open", real_open)

    assert lines_in(tmp_path) == numbered(20)
    assert [path.name for path in tmp_path.iterdir()] == ["audit.log"]
    assert [error.strerror for error in calls.errors] == ["No space left on device"]


def test_a_file_that_another_process_writes_to_is_not_put_aside(tmp_path: Path) -> None:
    calls = Calls()
    file = opened(tmp_path / "audit.log", calls, most_bytes=100)
    other = opened(tmp_path / "audit.log")

    file.write(deque(numbered(10)))
    assert [error.strerror for error in calls.errors] == ["another process is writing to it"]
    other.write(deque([b"from another\n"]))
    other.close()
    file._next_rotation = 0.0
    file.write(deque(numbered(1)))

    assert lines_in(tmp_path) == [*numbered(10), b"from another\n", *numbered(1)]
    assert calls.rotations == 1


def test_a_file_that_somebody_else_has_moved_is_begun_anew(tmp_path: Path) -> None:
    file = opened(tmp_path / "audit.log", most_bytes=40)
    file.write(deque(numbered(2)))
    (tmp_path / "audit.log").rename(tmp_path / "audit-1.log")

    file.write(deque(numbered(1)))

    assert (tmp_path / "audit-1.log").read_bytes() == b"".join(numbered(2))
    assert (tmp_path / "audit.log").read_bytes() == b"".join(numbered(1))


def write_much(path: Path, letter: bytes) -> None:
    file = opened(path, most_bytes=2000)
    for _ in range(300):
        file.write(deque([letter * 99 + b"\n"]))
        file._next_rotation = 0.0
    file.close()


def test_processes_that_share_a_file_lose_nothing_of_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=write_much, args=(tmp_path / "audit.log", letter))
        for letter in (b"a", b"b", b"c")
    ]

    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    lines = lines_in(tmp_path)
    assert sorted(lines) == [
        letter * 99 + b"\n" for letter in (b"a", b"b", b"c") for _ in range(300)
    ]
