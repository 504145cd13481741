import fcntl
import gzip
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from proxy.audit.backends.log_rotation import (
    LogRetention,
    RetentionPolicy,
    apply_retention,
    rotated_name,
)
from tests.support.impersonation import poll

NOW = datetime(2026, 11, 16, 4, 0, tzinfo=UTC)


def put_aside(directory: Path, *ages_in_days: int, suffix: str = "") -> list[str]:
    names = []
    for age in ages_in_days:
        file = rotated_name(directory / "audit.log", NOW - timedelta(days=age))
        file = file.with_name(file.name + suffix)
        file.write_bytes(b"%d\n" % age)
        file.chmod(0o600)
        names.append(file.name)
    return names


def names_in(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def test_names_are_those_of_the_api_server_and_never_taken(tmp_path: Path) -> None:
    first = rotated_name(tmp_path / "audit.log", NOW)
    first.touch()
    second = rotated_name(tmp_path / "audit.log", NOW)
    second.with_name(second.name + ".gz").touch()
    third = rotated_name(tmp_path / "audit.log", NOW)

    assert [one.name for one in (first, second, third)] == [
        "audit-2026-11-16T04-00-00.000.log",
        "audit-2026-11-16T04-00-00.001.log",
        "audit-2026-11-16T04-00-00.002.log",
    ]


@pytest.mark.parametrize(
    ("keeping", "kept_ages"),
    [
        (RetentionPolicy(), [1, 2, 3, 40]),
        (RetentionPolicy(files=2), [1, 2]),
        (RetentionPolicy(days=30), [1, 2, 3]),
        (RetentionPolicy(days=30, files=1), [1]),
    ],
    ids=["all", "by number", "by age", "by both"],
)
def test_what_is_too_old_or_too_much_is_deleted_and_nothing_else(
    tmp_path: Path, keeping: RetentionPolicy, kept_ages: list[int]
) -> None:
    others = ["audit.log", "audit-notes.log", "audit-2026-99-99T04-00-00.000.log", "other.log"]
    for name in others:
        (tmp_path / name).touch()
    names = dict(zip([1, 2, 3, 40], put_aside(tmp_path, 1, 2, 3, 40), strict=True))

    apply_retention(tmp_path / "audit.log", keeping, now=NOW)

    assert names_in(tmp_path) == sorted([*others, *(names[age] for age in kept_ages)])


def test_compressed_files_count_and_leftovers_go_with_their_file(tmp_path: Path) -> None:
    kept = put_aside(tmp_path, 1, suffix=".gz")
    put_aside(tmp_path, 2, suffix=".gz")
    put_aside(tmp_path, 3, suffix=".gz.part")

    apply_retention(tmp_path / "audit.log", RetentionPolicy(files=1), now=NOW)

    assert names_in(tmp_path) == kept


def test_compressing_keeps_content_and_mode(tmp_path: Path) -> None:
    (name,) = put_aside(tmp_path, 1)

    apply_retention(tmp_path / "audit.log", RetentionPolicy(compress=True), now=NOW)

    (packed,) = tmp_path.iterdir()
    assert packed.name == f"{name}.gz"
    assert gzip.decompress(packed.read_bytes()) == b"1\n"
    assert stat.S_IMODE(packed.stat().st_mode) == 0o600


def test_an_unfinished_one_is_made_again(tmp_path: Path) -> None:
    (name,) = put_aside(tmp_path, 1)
    (tmp_path / f"{name}.gz.part").write_bytes(b"half")

    apply_retention(tmp_path / "audit.log", RetentionPolicy(compress=True), now=NOW)

    (packed,) = tmp_path.iterdir()
    assert gzip.decompress(packed.read_bytes()) == b"1\n"


def test_what_cannot_be_compressed_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = put_aside(tmp_path, 1)

    def no_space(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", no_space)
    with pytest.raises(OSError, match="No space left on device"):
        apply_retention(tmp_path / "audit.log", RetentionPolicy(compress=True), now=NOW)

    assert names_in(tmp_path) == [name]


def test_a_file_that_is_still_written_to_is_left_alone(tmp_path: Path) -> None:
    (name,) = put_aside(tmp_path, 1)

    with (tmp_path / name).open("ab") as writer:
        fcntl.flock(writer, fcntl.LOCK_SH)
        apply_retention(tmp_path / "audit.log", RetentionPolicy(compress=True), now=NOW)

    assert names_in(tmp_path) == [name]


def test_the_thread_does_it_when_told_and_reports_what_it_cannot(tmp_path: Path) -> None:
    errors: list[OSError] = []
    (name,) = put_aside(tmp_path, 1)
    files = LogRetention(
        tmp_path / "audit.log", RetentionPolicy(compress=True), when_failed=errors.append
    )
    gone = LogRetention(
        tmp_path / "missing" / "audit.log", RetentionPolicy(files=1), when_failed=errors.append
    )

    files.apply()
    gone.apply()

    poll(lambda: names_in(tmp_path) == [f"{name}.gz"], "it was not compressed")
    poll(lambda: len(errors) == 1, "nothing was told")
