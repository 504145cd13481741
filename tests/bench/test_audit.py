"""The benchmark of audit events runs and tells both of its figures."""

import json
import subprocess
from pathlib import Path

import pytest

from bench import audit
from bench.audit_part import measure_part
from bench.stage import running_stage
from tests.support.build_once import report_missing

pytestmark = pytest.mark.timeout(180)  # the first run builds the Go parts


@pytest.fixture(scope="module")
def go_parts() -> None:
    try:
        with running_stage():
            pass
    except (OSError, subprocess.SubprocessError) as error:
        report_missing(f"the benchmark's Go parts cannot be built: {error}")


@pytest.mark.usefixtures("go_parts")
def test_a_run_tells_what_an_event_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rounds=1", "--seconds=0.2", "--connections=4", "--batches=3"]

    code = audit.main([*arguments, f"--results={tmp_path}"])

    told = capsys.readouterr().out
    assert code == 0
    assert "us an event" in told
    assert "us of CPU a request" in told
    (file,) = tmp_path.iterdir()
    results = json.loads(file.read_text())
    assert results["ratios"]["us+audit"]["us"]["median"] > 0
    assert results["pythonPart"]["one_event"] > 0


def test_an_event_costs_less_than_thrice_what_is_promised() -> None:
    """A bound for any machine: the promise itself (15 us) is held by `make bench-audit`."""
    assert measure_part(batches=20).one_event < 45
