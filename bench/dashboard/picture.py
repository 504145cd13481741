"""The dashboard as an image: each panel at its position, with title, unit and legend."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.dashboard.panels import Panel
from bench.dashboard.programs import Series

_WIDTH = 24
_INCHES_WIDE = 19.0
_INCHES_HIGH = 0.34  # of one unit of the grid
_DOTS_PER_INCH = 76
_LEGEND_COLUMNS = 4
_INK, _PALE, _PAPER = "#24292f", "#d8dee4", "#f6f8fa"
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def draw(panels: Sequence[Panel], answers: Sequence[Sequence[Series]], file: Path) -> None:
    """Draw panels into a file; `answers` are the series of each, with their names in `label`."""
    mpl.use("Agg")
    height = max(panel.place["y"] + panel.place["h"] for panel in panels)
    figure = Figure(figsize=(_INCHES_WIDE, height * _INCHES_HIGH), facecolor="white")
    times = [at for group in answers for series in group for at, _ in series.samples]
    span = min(times), max(times)
    for panel, shown in zip(panels, answers, strict=True):
        place = _place(panel, height)
        match panel.kind:
            case "row":
                left, bottom, _, tall = place
                figure.text(
                    left, bottom + tall / 4, panel.title, size=13, weight="bold", color=_INK
                )
            case "stat":
                _draw_figure(figure.add_axes(place), panel, shown)
            case _:
                _draw_lines(figure.add_axes(place), panel, shown, span)
    figure.savefig(file, dpi=_DOTS_PER_INCH, metadata={"Software": None})


def _place(panel: Panel, height: int) -> tuple[float, float, float, float]:
    """Return left, bottom, width and height of a panel's content, as fractions of the image."""
    x, y, wide, tall = (panel.place[key] for key in ("x", "y", "w", "h"))
    if panel.kind == "row":
        return (x + 0.3) / _WIDTH, 1 - (y + tall) / height, wide / _WIDTH, tall / height
    if panel.kind == "stat":
        left, right, below, above = 0.15, 0.15, 0.3, 0.3
    else:  # space for the scale, the title and the legend
        left, right, below, above = 1.0, 0.25, 2.4, 1.0
    return (
        (x + left) / _WIDTH,
        1 - (y + tall - below) / height,
        (wide - left - right) / _WIDTH,
        (tall - below - above) / height,
    )


def _draw_figure(axes: Any, panel: Panel, series: Sequence[Series]) -> None:
    """Draw the last value as a number."""
    write = (lambda value: f"{value:.0f}") if panel.decimals == 0 else _unit(panel.unit)
    last = [write(one.samples[-1][1]) for one in series if one.samples]
    text = last[0] if last else "no data"
    axes.set_facecolor(_PAPER)
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_color(_PALE)
    axes.text(0.5, 0.42, text, size=19, weight="bold", ha="center", va="center", color="#1a7f37")
    axes.text(0.5, 0.84, panel.title, size=8, ha="center", va="center", color=_INK)


def _draw_lines(
    axes: Any, panel: Panel, series: Sequence[Series], span: tuple[float, float]
) -> None:
    begin, end = span
    shown = [one for one in series if one.samples]
    if panel.is_stacked and shown:
        _stack(axes, shown, begin)
    else:
        for one in shown:
            times = [at - begin for at, _ in one.samples]
            axes.plot(times, [value for _, value in one.samples], label=one.labels["label"])
    axes.set_title(panel.title, size=9.5, loc="left", color=_INK, weight="bold")
    axes.set_xlim(0, end - begin)
    highest = axes.get_ylim()[1]
    axes.set_ylim(0, highest * 1.05)
    axes.tick_params(labelsize=7, colors=_INK, length=2)
    axes.grid(color=_PALE, linewidth=0.5)
    axes.yaxis.set_major_formatter(lambda value, _: _unit(panel.unit)(value))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} s")
    for side in axes.spines.values():
        side.set_color(_PALE)
    if shown:
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.12),
            ncols=_LEGEND_COLUMNS,
            fontsize=6.5,
            frameon=False,
            handlelength=1.0,
            columnspacing=1.0,
        )
    else:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=_INK)


def _stack(axes: Any, shown: Sequence[Series], begin: float) -> None:
    times = sorted({at for one in shown for at, _ in one.samples})
    known = [dict(one.samples) for one in shown]
    values = [[one.get(at, 0.0) for at in times] for one in known]
    labels = [one.labels["label"] for one in shown]
    axes.stackplot([at - begin for at in times], values, labels=labels, alpha=0.75)


def _unit(unit: str) -> Callable[[float], str]:
    """Return the formatter for values of a unit."""
    match unit:
        case "s":
            return _duration
        case "percentunit":
            return lambda value: f"{value * 100:.3g} %"
        case "bytes":
            return lambda value: f"{value / 2**20:.0f} MiB"
        case "reqps":
            return lambda value: f"{value:.3g}/s"
        case _:
            return lambda value: f"{value:.5g}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    for size, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
