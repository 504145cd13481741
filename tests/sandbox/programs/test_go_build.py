from pathlib import Path

import pytest

from proxy.sandbox.programs import go_build
from proxy.sandbox.programs.go_build import build_digest, build_programs
from tests.sandbox.conftest import Machine
from tests.support.control_plane_programs import GO, write_program


def test_go_gets_a_copy_of_the_pinned_module_and_the_flags_of_a_release(
    machine: Machine, tmp_path: Path
) -> None:
    write_program(machine.path / "go", GO)

    build_programs(tmp_path, machine.said.append)

    etcd, kubectl, kube_apiserver = (machine.path / "calls").read_text().splitlines()
    linker = " ".join(
        f"-X {package}.gitVersion=v1.37.1 -X {package}.gitMajor=1 -X {package}.gitMinor=37"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    )
    flags = f"CGO_ENABLED=0 build -mod=readonly -trimpath -ldflags -s -w {linker}"
    assert etcd == f"{flags} -o {tmp_path}/etcd go.etcd.io/etcd/server/v3 in go.mod go.sum"
    assert kubectl.endswith("/kubectl k8s.io/kubernetes/cmd/kubectl in go.mod go.sum")
    assert kube_apiserver.endswith("k8s.io/kubernetes/cmd/kube-apiserver in go.mod go.sum")


def test_a_long_build_shows_that_it_goes_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(go_build, "HEARTBEAT_SECONDS", 0.02)
    write_program(machine.path / "go", GO)
    hold = machine.path / "hold"
    hold.touch()
    said: list[str] = []

    def listen(line: str) -> None:
        said.append(line)
        if line.startswith("  still building"):
            hold.unlink(missing_ok=True)

    build_programs(tmp_path, listen)

    assert "  still building etcd, 0 s" in said


def test_the_recipe_changes_with_the_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = build_digest()
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_bytes((go_build.MODULE / name).read_bytes())
    monkeypatch.setattr(go_build, "MODULE", tmp_path)
    copied = build_digest()
    with (tmp_path / "go.sum").open("a") as sums:
        sums.write("more\n")

    assert copied == before
    assert build_digest() != before
