"""Bars are met or missed, and what is not known is missed."""

import pytest

from bench.bars import BARS, Bar, Kind, evaluate_bars, ratio
from bench.rows.catalogue import ROWS
from bench.turns import RowResult
from tests.bench.rows import pair, played


def _judged(bar: Bar, done: RowResult) -> str:
    (judgement,) = evaluate_bars(done, [bar])
    return str(judgement)


@pytest.mark.parametrize(
    ("bar", "verdict"),
    [
        pytest.param(ratio("work", "us", 0.5, of="go"), "bar met", id="just at the limit"),
        pytest.param(ratio("work", "us", 0.49, of="go"), "bar missed", id="above the limit"),
        pytest.param(
            ratio("work", "us", 0.5, of="go", is_strict=True), "bar missed", id="not below it"
        ),
        pytest.param(Bar("work", "us", 10.0), "bar met", id="amount"),
        pytest.param(Bar("work", "us", 9.9), "bar missed", id="amount above"),
        pytest.param(Bar("work", "us", 7.0, figure="own"), "bar met", id="another figure"),
        pytest.param(Bar("work", "us", 6.0, figure="own"), "bar missed", id="another above"),
        pytest.param(Bar("work", "go", 10.0, Kind.ADDED, "us"), "bar met", id="added"),
        pytest.param(Bar("work", "go", 9.0, Kind.ADDED, "us"), "bar missed", id="added too much"),
        pytest.param(ratio("work", "us", 1.0, of="envoy"), "bar missed", id="never measured"),
    ],
)
def test_a_bar_is_held_against_the_median(bar: Bar, verdict: str) -> None:
    done = played({"us": 10.0, "go": 20.0}, pair("us", "go"), pair("go", "us"))

    assert _judged(bar, done).startswith(verdict)


def test_a_bar_tells_what_was_found() -> None:
    done = played({"us": 10.0, "go": 20.0}, pair("us", "go"))

    told = _judged(ratio("work", "us", 0.4, of="go"), done)

    assert told == "bar missed  us <= 0.4 of go: 0.50 (0.50-0.50)"


def test_a_row_is_judged_by_its_own_bars_only() -> None:
    done = played({"us": 10.0}, pair("us", None))

    assert evaluate_bars(done, [Bar("other", "us", 1.0)]) == []


@pytest.mark.parametrize("bar", BARS, ids=str)
def test_every_bar_is_about_a_row_that_measures_it(bar: Bar) -> None:
    (row,) = [row for row in ROWS if row.name == bar.row]
    compared = {(one.side.label, one.base.label if one.base else "") for one in row.pairs}

    if bar.base:
        assert (bar.side, bar.base) in compared
    else:
        assert bar.side in {label for one in compared for label in one}


def test_the_bars_are_those_that_were_promised() -> None:
    told = [f"{bar.row}: {bar}" for bar in BARS]

    assert "small-get-c64: us <= 0.5 of go-default" in told
    assert "small-get-c64: us <= 0.75 of go-pooled" in told
    assert "small-get-c64: us < 1 of envoy" in told
    assert "small-get-c1: us <= 0.6 of go-default" in told
    assert "list-500k: us <= 1.05 of go-default" in told
    assert "watch-events: us <= 0.9 of go-default" in told
    assert "small-get-c64: us+audit <= 15 more than us" in told
    assert "small-get-c64: us+audit <= 0.65 of go-default" in told
    assert "idle-watch: us KiB a stream, 1000 open <= 50" in told
    assert "idle-watch: us KiB a stream, 5000 open <= 50" in told
    assert "connections: us [999 idle] <= 1.2 of us [alone]" in told
    assert "connections: us [1000 at once] <= 1.2 of us [alone]" in told
