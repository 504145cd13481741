import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.sandbox.errors import SandboxError
from proxy.sandbox.programs.binaries import Binaries, find_binaries
from tests.sandbox.conftest import Machine
from tests.support.control_plane_programs import (
    BROKEN_GO,
    GO,
    write_program,
    write_programs,
)
from tests.support.streaming import wait_until

FIND = "from proxy.sandbox.programs.binaries import find_binaries; print(find_binaries().origin)"


def find(machine: Machine) -> Binaries:
    return find_binaries(machine.said.append)


def failure_lines(machine: Machine) -> list[str]:
    with pytest.raises(SandboxError) as failure:
        find(machine)
    return [line.strip() for line in str(failure.value).splitlines()]


def test_assets_the_user_names_come_first(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_programs(machine.assets)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine.assets))
    machine.mirror.offer()

    found = find(machine)

    assert found == Binaries(
        etcd=machine.assets / "etcd",
        kube_apiserver=machine.assets / "kube-apiserver",
        kubectl=machine.assets / "kubectl",
        origin=f"Kubernetes v1.37.1 from $KUBEBUILDER_ASSETS ({machine.assets})",
    )
    assert machine.mirror.asked == []


def test_incomplete_assets_are_passed_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_programs(machine.assets, ["etcd"])
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine.assets))
    machine.mirror.offer()

    assert find(machine).etcd == machine.cache / "etcd"


def test_the_cache_serves_the_second_time(machine: Machine) -> None:
    machine.mirror.offer()
    first = find(machine)
    machine.said.clear()
    machine.mirror.asked.clear()

    second = find(machine)

    assert second == first
    assert machine.said == []
    assert machine.mirror.asked == []


@pytest.mark.parametrize("stamp", [None, "another recipe\n"], ids=["none", "another"])
def test_a_cache_without_the_right_stamp_is_made_anew(machine: Machine, stamp: str | None) -> None:
    write_programs(machine.cache)
    if stamp is not None:
        (machine.cache / "stamp").write_text(stamp)
    write_program(machine.path / "go", GO)

    assert find(machine).origin == f"built by go1.99 ({machine.cache})"


def test_a_cache_that_lost_a_program_is_made_anew(machine: Machine) -> None:
    machine.mirror.offer()
    find(machine)
    (machine.cache / "kubectl").unlink()

    assert find(machine).kubectl.is_file()


def test_the_archive_is_preferred_to_a_build(machine: Machine) -> None:
    machine.mirror.offer()
    write_program(machine.path / "go", GO)

    found = find(machine)

    link = f"{machine.mirror.url}/archive.tar.gz"
    assert found.origin == f"downloaded from {link} ({machine.cache})"
    assert os.access(found.kube_apiserver, os.X_OK)
    assert sorted(path.name for path in machine.cache.iterdir()) == [
        "etcd",
        "kube-apiserver",
        "kubectl",
        "stamp",
    ]
    assert not (machine.path / "calls").exists()


def test_without_an_archive_go_builds(machine: Machine) -> None:
    write_program(machine.path / "go", GO)

    found = find(machine)

    assert found.origin == f"built by go1.99 ({machine.cache})"
    assert found.etcd.is_file()
    assert [line for line in machine.said if line.startswith("building ")] == [
        "building Kubernetes 1.37.1 with Go: once per machine, about 9 minutes on 2 cores",
        "building etcd (1 of 3)",
        "building kubectl (2 of 3)",
        "building kube-apiserver (3 of 3)",
    ]


def test_when_no_way_works_the_error_has_a_line_for_each(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_programs(machine.assets, ["etcd"])
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine.assets))

    assert failure_lines(machine) == [
        "no control plane, every source failed:",
        f"$KUBEBUILDER_ASSETS: {machine.assets} has no kube-apiserver, kubectl",
        f"cache: {machine.cache} has no etcd, kube-apiserver, kubectl",
        "envtest archive: cannot read the index: HTTP Error 404: Not Found",
        "build by Go: there is no `go` on the PATH",
    ]


def test_assets_that_do_not_run_are_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_programs(machine.assets)
    write_program(machine.assets / "kube-apiserver", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine.assets))

    assert f"{machine.assets}/kube-apiserver does not run" in failure_lines(machine)[1]


def test_a_failed_build_is_reported_and_leaves_nothing_behind(machine: Machine) -> None:
    write_program(machine.path / "go", BROKEN_GO)

    lines = failure_lines(machine)

    assert lines[1] == "$KUBEBUILDER_ASSETS: not set"
    assert lines[-1] == (
        "build by Go: building etcd failed: go: downloading something | go: no network"
    )
    assert [path.name for path in machine.cache.parent.iterdir()] == ["1.37.1.lock"]


def test_a_cache_that_cannot_be_written_is_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert failure_lines(machine)[-1].startswith("writing the cache: [Errno 20] Not a directory")


def test_two_at_a_time_build_once(machine: Machine) -> None:
    write_program(machine.path / "go", GO)
    hold = machine.path / "hold"
    hold.touch()
    calls = machine.path / "calls"

    with start_finding() as first:
        wait_until(calls.exists, "the first build did not start")
        with start_finding() as second:
            assert second.stderr is not None
            waiting = second.stderr.readline()
            hold.unlink()
            origins = {process.communicate()[0] for process in (first, second)}

    assert waiting == f"another process is filling {machine.cache}, waiting for it\n"
    assert origins == {f"built by go1.99 ({machine.cache})\n"}
    assert len(calls.read_text().splitlines()) == 3


def start_finding() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FIND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
