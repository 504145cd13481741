"""Prometheus programs: `promtool`, and the query engine for single expressions.

    promtool("check", "rules", file)
    read_expressions(["sum by (mode) (rate(a_total[5m]))"])
    evaluate(Window(start, end, step), series, ["a", "b"])

Both are built by Go from `prometheus/`, once per version of the sources; a first build takes two
minutes.
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
# Without the service-discovery clients, which are not used.
_TAGS = "remove_all_sd"
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Matcher:
    """A selector's condition on one label; the metric's name is the label `__name__`."""

    name: str
    op: str
    value: str


@dataclass(frozen=True, slots=True)
class Expression:
    """The selectors and labels of an expression; `error` if it cannot be parsed."""

    error: str
    selectors: tuple[tuple[Matcher, ...], ...]
    grouping: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A series: its labels, and its samples as Unix time and value."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Window:
    """A time range and its step, in seconds."""

    start: float
    end: float
    step: float


def promtool_program() -> Path:
    """Return promtool, built if necessary; OSError, SubprocessError."""
    return go_program("promtool", SOURCE, package=_PROMTOOL, tags=_TAGS)


def engine_program() -> Path:
    """Return the query engine, built if necessary; OSError, SubprocessError."""
    return go_program("promql", SOURCE)


def promtool(*arguments: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run promtool in a directory and return the result, whatever the exit code."""
    return subprocess.run(
        [promtool_program(), *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def read_expressions(texts: Sequence[str]) -> list[Expression]:
    """Return the selectors of each expression, as Prometheus parses it."""
    found = _run_engine("selectors", list(texts))
    return [
        Expression(
            error=parsed["error"],
            selectors=tuple(
                tuple(Matcher(**matcher) for matcher in matchers)
                for matchers in parsed["selectors"]
            ),
            grouping=tuple(parsed["grouping"] or ()),
        )
        for parsed in found
    ]


def evaluate(
    window: Window, series: Sequence[Series], queries: Sequence[str]
) -> list[list[Series]]:
    """Return the resulting series of each query over the window."""
    request = {
        "series": [{"labels": dict(one.labels), "samples": list(one.samples)} for one in series],
        "queries": list(queries),
        "start": window.start,
        "end": window.end,
        "step": window.step,
    }
    answers = _run_engine("range", request)
    return [
        [
            Series(one["labels"], tuple((at, value) for at, value in one["samples"]))
            for one in answer
        ]
        for answer in answers
    ]


def _run_engine(command: str, request: object) -> Any:
    done = subprocess.run(
        [engine_program(), command],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)
