"""The files that make an unmodified in-cluster client find the hop."""

import stat
from pathlib import Path

import pytest

from proxy.sidecar.service_account_dir import ServiceAccountDir, ServiceAccountDirError


def test_a_directory_looks_like_a_service_accounts(tmp_path: Path) -> None:
    shared, mounted = tmp_path / "shared", tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "token").write_text("first")

    ServiceAccountDir((), shared, "team-a", mounted / "token").write(b"the CA")

    assert (shared / "ca.crt").read_bytes() == b"the CA"
    assert (shared / "namespace").read_text() == "team-a"
    assert (shared / "token").read_text() == "first"
    assert sorted(file.name for file in shared.iterdir()) == ["ca.crt", "namespace", "token"]


def test_a_renewed_token_is_seen_at_once(tmp_path: Path) -> None:
    (tmp_path / "renewed").write_text("first")
    ServiceAccountDir((), tmp_path / "shared", None, tmp_path / "renewed").write(b"")

    (tmp_path / "renewed").write_text("second")

    assert (tmp_path / "shared" / "token").read_text() == "second"


def test_the_link_may_lead_to_what_only_the_application_has(tmp_path: Path) -> None:
    elsewhere = Path("/no/such/mount/token")

    ServiceAccountDir((), tmp_path, None, elsewhere).write(b"")

    assert (tmp_path / "token").readlink() == elsewhere


def test_a_restart_replaces_what_the_last_run_left(tmp_path: Path) -> None:
    for number in (b"1", b"2"):
        ServiceAccountDir((tmp_path / "one.crt",), tmp_path, "n", Path("/a")).write(number)

    assert (tmp_path / "one.crt").read_bytes() == b"2"
    assert (tmp_path / "ca.crt").read_bytes() == b"2"


def test_any_user_may_read_the_ca(tmp_path: Path) -> None:
    ServiceAccountDir((tmp_path / "hop.crt",)).write(b"the CA")

    assert stat.S_IMODE((tmp_path / "hop.crt").stat().st_mode) == 0o644


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServiceAccountDirError, match=r"cannot write .*none.*: No such file"):
        ServiceAccountDir((tmp_path / "none" / "hop.crt",)).write(b"")
