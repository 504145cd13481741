"""`make test` runs groups in parallel, then tests that measure, alone: seen on a toy suite."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.two_phases import LONGEST, SERIAL

ROOT = Path(__file__).parents[2]

CONFTEST = """
import json, os, time
from pathlib import Path
import pytest
from tests.conftest import pytest_xdist_make_scheduler

@pytest.fixture(autouse=True)
def noted(request):
    file = request.node.nodeid.partition("::")[0]
    began = time.monotonic()
    time.sleep(0.05)
    yield
    line = json.dumps([file, os.environ["PYTEST_XDIST_WORKER"], began, time.monotonic()])
    with Path("noted").open("a") as output:
        output.write(line + "\\n")
"""
TESTS = "def test_one(): pass\ndef test_two(): pass\ndef test_three(): pass\n"
SUITE = dict.fromkeys(
    (
        "tests/core/test_a.py",
        "tests/core/test_b.py",
        "tests/e2e/kep/test_c.py",
        "tests/e2e/kep/test_d.py",
        *SERIAL[:2],
    ),
    TESTS,
)


@dataclass(frozen=True, slots=True)
class Noted:
    """When a test ran, and in which worker."""

    file: str
    worker: str
    began: float
    ended: float


def run(
    directory: Path, suite: dict[str, str]
) -> tuple[list[Noted], subprocess.CompletedProcess[str]]:
    """Run a suite with two workers."""
    for name, text in {"conftest.py": CONFTEST, **suite}.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    words = ["-n2", "--import-mode=importlib", f"--rootdir={directory}", "-pno:cacheprovider"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (directory / "noted").read_text().splitlines()
    return [Noted(*json.loads(line)) for line in lines], result


def test_files_that_measure_run_when_no_other_test_runs_and_packages_stay_together(
    tmp_path: Path,
) -> None:
    noted, result = run(tmp_path, SUITE)

    assert result.returncode == 0, result.stdout
    assert "18 passed" in result.stdout.splitlines()[-1]
    parallel = [one for one in noted if one.file not in SERIAL]
    serial = sorted((one for one in noted if one.file in SERIAL), key=lambda one: one.began)
    assert max(one.ended for one in parallel) < serial[0].began
    assert all(one.ended <= after.began for one, after in pairwise(serial))
    assert len({one.worker for one in parallel}) == 2
    assert len({one.worker for one in noted if "kep" in one.file}) == 1


@pytest.mark.parametrize("file", ["tests/core/test_a.py", SERIAL[0]])
def test_a_failure_in_either_phase_fails_the_run(tmp_path: Path, file: str) -> None:
    _, result = run(tmp_path, SUITE | {file: f"{TESTS}def test_four(): assert False\n"})

    assert result.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 18 passed" in result.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", [*SERIAL, *LONGEST])
def test_what_the_order_names_exists(name: str) -> None:
    assert (ROOT / name).exists()
