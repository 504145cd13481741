"""The benchmark measures work that was really done, or fails."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import small_get
from bench.contestants import GO_DEFAULT, US, running
from bench.measurement import Load, WrongAnswer, measure
from bench.stage import Stage, running_stage
from tests.support.build_once import report_missing

pytestmark = pytest.mark.timeout(180)  # the first run builds the Go parts

SHORT = Load(connections=4, seconds=0.2, warm_up_seconds=0.1)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    try:
        with running_stage() as started:
            yield started
    except (OSError, subprocess.SubprocessError) as error:
        report_missing(f"the benchmark's Go parts cannot be built: {error}")


def test_a_run_compares_everybody_and_keeps_every_turn(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--rounds=1", "--seconds=0.2", "--connections=4", f"--results={tmp_path}"]

    code = small_get.main(arguments)

    told = capsys.readouterr().out
    assert code == 0
    for name in ("go-default", "go-pooled", "us-self", "us", "us+audit"):
        assert f"\n{name} " in told
    (file,) = tmp_path.iterdir()
    results = json.loads(file.read_text())
    assert results["reviews"]["tokens"] > 0
    assert results["reviews"]["access"] > 0
    assert all(one["turns"][0]["cpu_microseconds"] > 0 for one in results["contestants"])
    # Decisions came from memory: a review is the exception.
    requests = sum(one["turns"][0]["requests"] for one in results["contestants"])
    assert results["reviews"]["access"] < requests / 10


def test_a_contestant_that_forwards_as_somebody_else_fails_the_run(stage: Stage) -> None:
    with running(GO_DEFAULT, stage) as contestant:
        pretending = replace(contestant, entry=replace(US, name="pretending"))

        with pytest.raises(WrongAnswer, match="arrived as"):
            measure(pretending, stage, SHORT)


def test_a_contestant_that_audits_less_than_it_serves_fails_the_run(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.measurement._AUDIT_SECONDS", 0.1)
    silent = tmp_path / "audit"
    silent.touch()
    with running(US, stage) as contestant:
        pretending = replace(contestant, audit_file=silent)

        with pytest.raises(WrongAnswer, match="0 audit events"):
            measure(pretending, stage, SHORT)


def test_a_contestant_that_refuses_fails_the_run(stage: Stage) -> None:
    with running(GO_DEFAULT, stage) as contestant:
        stage.client_token_file.write_text("wrong")
        try:
            with pytest.raises(WrongAnswer, match="not a 200"):
                measure(contestant, stage, SHORT)
        finally:
            stage.client_token_file.write_text(stage.client_token.value)
