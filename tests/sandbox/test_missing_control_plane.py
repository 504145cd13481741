"""How a test run behaves on a machine where no control plane can be had."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.conftest import Machine

ROOT = Path(__file__).parents[2]
REAL_TEST = "tests/e2e/test_minted_identities.py::test_nobody_is_anonymous"


def run_real_test(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, REAL_TEST]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_tests_of_the_real_server_are_skipped_with_the_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)

    run = run_real_test()

    assert run.returncode == 0, run.stdout
    assert "1 skipped" in run.stdout
    assert "SKIPPED [1]" in run.stdout
    assert "build by Go: there is no `go` on the PATH" in run.stdout


def test_with_ci_set_that_is_a_failure(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    run = run_real_test()

    assert run.returncode == 1, run.stdout
    assert "build by Go: there is no `go` on the PATH" in run.stdout


def test_they_are_left_out_by_their_mark_without_a_search(machine: Machine) -> None:
    run = run_real_test("-m", "not e2e")

    assert "1 deselected" in run.stdout
    assert machine.mirror.asked == []
