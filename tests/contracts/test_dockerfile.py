"""The image as it is written: its Python, its pins, and what its last stage may hold."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.dockerfile import DOCKERFILE, ROOT, base_image, stages

RUNTIME, BUILD, DEV = (ROOT / f"requirements{name}.lock" for name in ("", "-build", "-dev"))


def test_the_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")

    done = subprocess.run(
        [hadolint, DOCKERFILE], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_its_python_is_the_one_that_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    floor = project["requires-python"].removeprefix(">=")

    assert base_image() == f"python:{floor}-slim-bookworm"
    # The tests may run with a newer one; that one of them runs with this is the CI's to see to.
    assert sys.version_info[:2] >= tuple(map(int, floor.split(".")))
    assert set(re.findall(r"python(\d\.\d+)", DOCKERFILE.read_text())) == {floor}


def test_both_stages_start_from_it() -> None:
    assert [stage[0].rest for stage in stages()] == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]


def test_the_last_stage_runs_as_a_number_that_is_not_root() -> None:
    (user,) = [one.rest for one in stages()[-1] if one.word == "USER"]

    uid, gid = user.split(":")
    assert int(uid) > 0
    assert int(gid) > 0


def test_the_last_stage_copies_the_environment_alone_and_takes_the_tools_away() -> None:
    last = stages()[-1]
    runs = [one.rest for one in last if one.word == "RUN"]

    assert [one.rest for one in last if one.word == "COPY"] == [
        "--from=build /opt/understudy /opt/understudy"
    ]
    assert len(runs) == 1
    assert runs[0].startswith("python -m pip uninstall --yes pip setuptools wheel && rm -r ")


def test_only_what_a_lock_file_names_by_hash_is_installed() -> None:
    installs = [
        command
        for one in stages()[0]
        if one.word == "RUN"
        for command in one.rest.split("&&")
        if " install " in command
    ]

    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes --no-deps" in command or "--no-index --no-deps" in command


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), re.MULTILINE))


@pytest.mark.parametrize("lock", [RUNTIME, BUILD], ids=lambda lock: lock.name)
def test_what_is_installed_is_what_was_tested(lock: Path) -> None:
    assert pins(lock).items() <= pins(DEV).items()


def test_no_more_goes_to_the_engine_than_is_copied() -> None:
    copied = {name for one in stages()[0] if one.word == "COPY" for name in one.rest.split()[:-1]}
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied
