"""The benchmark measures work that was really done, or fails."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bench import __main__ as bench
from bench.contestants import DIRECT, GO_DEFAULT, US, Contestant
from bench.load import Load, measure, options
from bench.measurement import WrongAnswer
from bench.row import Turn
from bench.rows import watches
from bench.stage import Stage, running_stage
from tests.support.build_once import report_missing

pytestmark = pytest.mark.timeout(180)  # the first run builds the Go parts

SHORT = Load("get", options(connections=4), seconds=0.2)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    try:
        with running_stage() as started:
            yield started
    except (OSError, subprocess.SubprocessError) as error:
        report_missing(f"the benchmark's Go parts cannot be built: {error}")


def _run(tmp_path: Path, *arguments: str) -> tuple[int, Any]:
    code = bench.main([*arguments, "--rounds=1", "--seconds=0.2", f"--results={tmp_path}"])
    (file,) = tmp_path.glob("*.json")
    return code, json.loads(file.read_text())


@pytest.mark.usefixtures("stage")
def test_a_run_compares_neighbours_and_keeps_every_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["direct", "go-default", "go-pooled", "us", "us+audit"]

    code, results = _run(tmp_path, "--only", "small-get-c64", "--contestants", *names)

    told = capsys.readouterr().out
    (row,) = results["rows"]
    assert code == (0 if all(bar["isMet"] for bar in row["bars"]) else 1)
    assert ("bar missed" in told) == (code == 1)
    for name in names:
        assert f"\n  {name} " in told
    assert {"go-default", "go-pooled"} <= row["ratios"]["us"].keys()
    ours = [turn for turn in row["turns"] if turn["contestant"].startswith("us")]
    for turn in ours:
        assert turn["cost"] > 0
        assert turn["extra"]["reviewsSoFar"] > 0
        # Decisions came from memory: a review is the exception.
        assert turn["extra"]["cacheHits"] >= 0.5 * turn["extra"]["arrived"]
    audited = [turn["extra"] for turn in ours if turn["contestant"] == "us+audit"]
    assert all(extra["auditEvents"] == extra["arrived"] for extra in audited)


@pytest.mark.usefixtures("stage")
def test_a_delay_in_the_path_is_found_and_misses_the_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = ["--only", "small-get-c64", "--contestants", "us", "go-default"]

    code, results = _run(tmp_path, *choice, "--slowed-by=1000", "--beside", str(bench.PROJECT))

    (row,) = results["rows"]
    assert code == 1
    assert "bar missed  us <= 0.5 of go-default" in capsys.readouterr().out
    costs = {name: cost["median"] for name, cost in row["costs"].items()}
    assert costs["us"] - costs["other us"] > 800


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(replace(SHORT, work="list"), id="list"),
        pytest.param(replace(SHORT, work="post"), id="post"),
        pytest.param(replace(SHORT, work="mixed"), id="mixed"),
        pytest.param(replace(SHORT, work="connecting"), id="new connections"),
        pytest.param(
            replace(SHORT, options=options(connections=2, idle=20)), id="others that idle"
        ),
        pytest.param(replace(SHORT, work="events", requests=4), id="events"),
    ],
)
def test_every_kind_of_load_is_measured_and_witnessed(stage: Stage, load: Load) -> None:
    with GO_DEFAULT.start(GO_DEFAULT, stage) as contestant:
        found = measure(contestant, stage, load)

    assert found.cost is not None
    assert found.cost > 0
    assert found.p99_microseconds is not None
    assert found.p50_microseconds is not None
    assert found.p99_microseconds >= found.p50_microseconds > 0


def test_a_stream_is_weighed_in_a_process_of_its_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "FEW", 2)
    monkeypatch.setattr(watches, "STEPS", (50, 100))
    with GO_DEFAULT.start(GO_DEFAULT, stage) as contestant:
        found = watches.measure_idle(contestant, stage, Turn("", 0))

    assert found.requests == 100
    assert found.cost == found.extra["KiB a stream, 100 open"]
    assert found.extra["KiB a stream, 50 open"] > 0


def test_without_a_proxy_there_is_no_cost_of_one(stage: Stage) -> None:
    with DIRECT.start(DIRECT, stage) as contestant:
        found = measure(contestant, stage, SHORT)

    assert found.cost is None
    assert found.requests > 0


def test_a_contestant_that_forwards_as_somebody_else_fails_the_run(stage: Stage) -> None:
    with GO_DEFAULT.start(GO_DEFAULT, stage) as contestant:
        pretending = replace(contestant, entry=replace(US, name="pretending"))

        with pytest.raises(WrongAnswer, match="arrived as"):
            measure(pretending, stage, SHORT)


def test_a_contestant_that_audits_less_than_it_serves_fails_the_run(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.load._AUDIT_SECONDS", 0.1)
    silent = tmp_path / "audit"
    silent.touch()
    with US.start(US, stage) as contestant:
        pretending = replace(contestant, audit_file=silent)

        with pytest.raises(WrongAnswer, match="0 audit events"):
            measure(pretending, stage, SHORT)


def test_one_of_ours_that_does_not_decide_fails_the_run(stage: Stage) -> None:
    with GO_DEFAULT.start(GO_DEFAULT, stage) as working, US.start(US, stage) as idling:
        pretending = replace(working, metrics_url=idling.metrics_url)

        with pytest.raises(WrongAnswer, match="0 decisions from memory"):
            measure(pretending, stage, SHORT)


def test_a_contestant_that_refuses_fails_the_run(stage: Stage) -> None:
    with GO_DEFAULT.start(GO_DEFAULT, stage) as contestant:
        stage.client_token_file.write_text("wrong")
        try:
            with pytest.raises(WrongAnswer, match="401 Unauthorized"):
                measure(contestant, stage, SHORT)
        finally:
            stage.client_token_file.write_text(stage.client_token.value)


class _Liar(BaseHTTPRequestHandler):
    """An answer of the right length, and of nothing else that is right."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2048")
        self.end_headers()
        self.wfile.write(b"x" * 2048)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is named there
        """Say nothing."""


def test_a_contestant_that_returns_another_body_fails_the_run(stage: Stage) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Liar) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        address = f"127.0.0.1:{server.server_port}"
        liar = Contestant(replace(DIRECT, is_plain=True), address, None)
        try:
            with pytest.raises(WrongAnswer, match="the body is not the expected one"):
                measure(liar, stage, SHORT)
        finally:
            server.shutdown()
            serving.join()


def test_a_row_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--only", "nonsense"]) == 2
    assert "small-get-c64" in capsys.readouterr().err


def test_a_contestant_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--only", "small-get", "--contestants", "us", "nonsense"]) == 2
    assert "no such contestant in these rows: nonsense" in capsys.readouterr().err
