"""Prometheus' own programs: `promtool`, and its engine for single expressions.

    promtool("check", "rules", file)
    read_expressions(["sum by (mode) (rate(a_total[5m]))"])
    evaluate(Window(start, end, step), series, ["a", "b"])

Both are built by Go from `prometheus/`, once for its sources; from nothing that takes two minutes.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.sandbox.programs.go_program import go_program

SOURCE = Path(__file__).with_name("prometheus")
_PROMTOOL = "github.com/prometheus/prometheus/cmd/promtool"
# Without the clients of every cloud: we discover nothing.
_TAGS = "remove_all_sd"
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Matcher:
    """What a selector demands of one label; the metric's name is the label `__name__`."""

    name: str
    op: str
    value: str


@dataclass(frozen=True, slots=True)
class Expression:
    """What an expression refers to; `error` says why it is none."""

    error: str
    selectors: tuple[tuple[Matcher, ...], ...]
    grouping: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A series: its labels, and its samples as seconds since 1970 and value."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when, in which steps; all in seconds."""

    start: float
    end: float
    step: float


def promtool(*arguments: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run promtool in a directory to its end, whatever the exit code."""
    program = go_program("promtool", SOURCE, package=_PROMTOOL, tags=_TAGS)
    return subprocess.run(
        [program, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def read_expressions(texts: Sequence[str]) -> list[Expression]:
    """Return what each expression refers to, as Prometheus reads it."""
    found = _ask("selectors", list(texts))
    return [
        Expression(
            error=one["error"],
            selectors=tuple(
                tuple(Matcher(**matcher) for matcher in matchers) for matchers in one["selectors"]
            ),
            grouping=tuple(one["grouping"] or ()),
        )
        for one in found
    ]


def evaluate(
    window: Window, series: Sequence[Series], queries: Sequence[str]
) -> list[list[Series]]:
    """Return the series that each query makes of these, over the window."""
    asked = {
        "series": [{"labels": dict(one.labels), "samples": list(one.samples)} for one in series],
        "queries": list(queries),
        "start": window.start,
        "end": window.end,
        "step": window.step,
    }
    answers = _ask("range", asked)
    return [
        [
            Series(one["labels"], tuple((at, value) for at, value in one["samples"]))
            for one in answer
        ]
        for answer in answers
    ]


def _ask(command: str, asked: object) -> Any:
    program = go_program("promql", SOURCE)
    done = subprocess.run(
        [program, command],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)
