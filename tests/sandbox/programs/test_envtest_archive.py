import hashlib
import socket
import time
from pathlib import Path

import pytest

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.programs.envtest_archive import download_programs
from tests.sandbox.conftest import Machine


def download_failure(machine: Machine, directory: Path) -> str:
    with pytest.raises(SandboxError) as failure:
        download_programs(directory, machine.said.append)
    return str(failure.value)


def test_an_archive_with_another_checksum_is_thrown_away(machine: Machine, tmp_path: Path) -> None:
    machine.mirror.offer(sha512="0" * 128)

    reason = download_failure(machine, tmp_path)

    assert reason.endswith("does not have the checksum its index lists")
    assert not (tmp_path / "etcd").exists()


def test_a_release_the_index_does_not_list_is_not_guessed(machine: Machine, tmp_path: Path) -> None:
    machine.mirror.offer()
    index = machine.mirror.contents["/index.yaml"]
    machine.mirror.contents["/index.yaml"] = index.replace(b"1.37.1", b"1.36.0")

    reason = download_failure(machine, tmp_path)

    assert reason.startswith("the index lists no envtest-v1.37.1-")
    assert machine.mirror.asked == ["/index.yaml"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a: [", "the index is not YAML"),
        (b"releases: 1", "the index lists no envtest-"),
        (b"", "the index lists no envtest-"),
    ],
    ids=["broken", "odd", "empty"],
)
def test_an_index_that_makes_no_sense_is_refused(
    machine: Machine, tmp_path: Path, content: bytes, reason: str
) -> None:
    machine.mirror.contents["/index.yaml"] = content

    assert download_failure(machine, tmp_path).startswith(reason)


def test_an_archive_that_is_gone_is_reported(machine: Machine, tmp_path: Path) -> None:
    machine.mirror.offer()
    del machine.mirror.contents["/archive.tar.gz"]

    reason = download_failure(machine, tmp_path)

    assert reason.startswith(f"cannot download {machine.mirror.url}/archive.tar.gz")


def test_something_else_than_an_archive_is_reported(machine: Machine, tmp_path: Path) -> None:
    page = b"<html>please log in</html>"
    machine.mirror.offer(sha512=hashlib.sha512(page).hexdigest())
    machine.mirror.contents["/archive.tar.gz"] = page

    assert download_failure(machine, tmp_path).startswith("cannot unpack the archive")


@pytest.mark.parametrize("address", ["file:///etc/passwd", "nonsense"])
def test_an_index_is_read_from_the_web_only(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    monkeypatch.setenv("UNDERSTUDY_ENVTEST_INDEX", address)

    assert download_failure(machine, tmp_path) == (
        f"cannot read the index: not a web address: {address}"
    )


def test_a_silent_network_costs_less_than_five_seconds(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/index.yaml"
        monkeypatch.setenv("UNDERSTUDY_ENVTEST_INDEX", address)
        started = time.monotonic()

        reason = download_failure(machine, tmp_path)

        assert time.monotonic() - started < 5
        assert reason == "cannot read the index: no answer in time"
