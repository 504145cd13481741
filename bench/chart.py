"""`python -m bench.chart RESULTS.json FILE.png`: a chart of a run, with one panel per row.

Only this module needs matplotlib, so it is not in the main environment: `make bench` installs it
separately.
"""

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_COLUMNS = 3
_INCHES_WIDE, _INCHES_PER_BAR, _INCHES_AROUND = 19.0, 0.28, 1.1
_DOTS_PER_INCH = 80
_INK, _PALE, _OURS, _OTHERS = "#24292f", "#d8dee4", "#74c98a", "#c6cdd5"
_MISSED = "#cf222e"
_TITLE_WIDTH = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the chart, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.chart", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args(arguments)
    draw(json.loads(options.results.read_text()), options.picture)
    return 0


def draw(results: dict[str, Any], file: Path) -> None:
    """Draw a run: the first figure of every contestant, with its range."""
    mpl.use("Agg")
    rows = [row for row in results["rows"] if row["costs"]]
    lines = -(-len(rows) // _COLUMNS)
    max_bars = max(len(row["costs"]) for row in rows)
    height = lines * (max_bars * _INCHES_PER_BAR + _INCHES_AROUND) + 0.5
    figure = Figure(figsize=(_INCHES_WIDE, height), facecolor="white", layout="constrained")
    figure.suptitle(f"{results['startedAt']}, {results['cpus']} CPUs: less is better", color=_INK)
    panels = figure.subplots(lines, _COLUMNS, squeeze=False).flat
    for axes, row in zip(panels, rows, strict=False):
        _draw_row(axes, row)
    for axes in list(figure.axes)[len(rows) :]:
        axes.set_visible(False)
    figure.savefig(file, dpi=_DOTS_PER_INCH, metadata={"Software": None})


def _draw_row(axes: Any, row: dict[str, Any]) -> None:
    names = list(row["costs"])
    costs = [row["costs"][name] for name in names]
    medians = [cost["median"] for cost in costs]
    below = [cost["median"] - cost["lowest"] for cost in costs]
    above = [cost["highest"] - cost["median"] for cost in costs]
    colors = [_OURS if name.startswith("us") else _OTHERS for name in names]
    axes.barh(names, medians, xerr=(below, above), color=colors, ecolor=_INK, height=0.7)
    for place, name in enumerate(names):
        end = costs[place]["highest"]
        axes.text(end, place, f"  {_bar_label(row, name)}", va="center", size=7.5, color=_INK)
    missed = [f"missed: {bar['bar']}" for bar in row["bars"] if not bar["isMet"]]
    axes.set_title(
        "\n".join([textwrap.fill(row["title"], _TITLE_WIDTH), *missed]),
        size=9,
        loc="left",
        color=_INK if not missed else _MISSED,
    )
    axes.set_xlabel(row["unit"], size=8, color=_INK)
    # Space for the labels to the right of the bars.
    axes.set_xlim(0, max(cost["highest"] for cost in costs) * 1.7)
    axes.invert_yaxis()
    axes.tick_params(labelsize=8, colors=_INK, length=2)
    axes.grid(axis="x", color=_PALE, linewidth=0.5)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_color(_PALE)


def _bar_label(row: dict[str, Any], name: str) -> str:
    """Return a contestant's figure, and its ratios to others."""
    shares = (f"{ratio['median']:.2f} of {base}" for base, ratio in row["ratios"][name].items())
    return ", ".join([f"{row['costs'][name]['median']:.1f}", *shares])


if __name__ == "__main__":
    sys.exit(main())
