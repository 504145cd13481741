"""What people and later programs read of a run."""

import json
from datetime import UTC, datetime
from pathlib import Path

from bench.bars import evaluate_bars, ratio
from bench.measurement import Measurement
from bench.results import Outcome, write_results
from bench.row import Side
from bench.table import legend, progress, table
from tests.bench.rows import pair, played, row

DONE = played({"us": 10.0, "go": 20.0, "direct": 1.0}, pair("us", "go"), pair("direct", None))
BARS = [ratio("work", "us", 0.5, of="go"), ratio("work", "us", 0.1, of="go")]


def test_a_table_has_a_line_for_everybody_and_for_every_bar() -> None:
    lines = [line.split() for line in table(DONE, evaluate_bars(DONE, BARS)).splitlines()]

    assert ["us", "10.0", "(10.0-10.0)", "0.50", "(0.50-0.50)"] in lines
    assert ["go", "20.0", "(20.0-20.0)"] in lines
    assert ["bar", "met", "us", "<=", "0.5", "of", "go:", "0.50", "(0.50-0.50)"] in lines
    assert ["bar", "missed", "us", "<=", "0.1", "of", "go:", "0.50", "(0.50-0.50)"] in lines


def test_a_table_leaves_out_what_nobody_has() -> None:
    header = table(DONE, []).splitlines()[1]

    assert "of go" in header
    assert "RSS" not in header


def test_a_legend_tells_once_who_had_a_turn() -> None:
    # `peer` may take part and did not; `direct` did, and there is nothing to tell of it.
    assert legend([DONE, DONE]).splitlines() == [
        "  go  the one called go",
        "  us  the one called us",
    ]


def test_progress_names_row_and_contestant() -> None:
    line = progress(row(), Side("us", "many"), Measurement(cost=12.34, requests=1))

    assert line.split() == ["work", "us", "[many]", "12.3", "us"]


def test_results_keep_every_turn_and_every_bar(tmp_path: Path) -> None:
    outcome = Outcome(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), is_quick=True)
    outcome.rows.append((DONE, evaluate_bars(DONE, BARS)))

    file = write_results(outcome, tmp_path / "results")

    assert file.name == "2026-01-02T030405Z.json"
    (found,) = json.loads(file.read_text())["rows"]
    assert found["ratios"]["us"] == {"go": {"median": 0.5, "lowest": 0.5, "highest": 0.5}}
    assert [bar["isMet"] for bar in found["bars"]] == [True, False]
    assert [turn["contestant"] for turn in found["turns"]] == ["go", "us", "direct"]
    assert [str(one.bar) for one in outcome.missed] == ["us <= 0.1 of go"]
