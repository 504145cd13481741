"""Printed output: progress by turn, and a table for each row."""

import textwrap
from collections.abc import Iterable, Sequence

from bench.bars import BarResult
from bench.measurement import Measurement
from bench.ratios import Spread
from bench.row import Row, Side
from bench.turns import RowResult

_LEGEND_WIDTH = 110


def progress(row: Row, side: Side, found: Measurement) -> str:
    """Return a line for one turn."""
    cost = "" if found.cost is None else f"{found.cost:8.1f} {row.unit}"
    return f"  {row.name:15} {side.label:20} {cost}"


def table(played: RowResult, judgements: Sequence[BarResult]) -> str:
    """Return the table of a row, with the results of its bars."""
    row, columns = played.row, _ratio_columns(played)
    header = ["", row.unit, *columns, "p50", "p99", "per second", "RSS"]
    lines = [header, *(_line(played, label, list(columns.values())) for label in played.labels)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    shown = [any(cells[1:]) for cells in zip(*lines, strict=True)]
    cells = [
        "  "
        + "  ".join(
            cell.ljust(width)
            for cell, width, is_shown in zip(line, widths, shown, strict=True)
            if is_shown
        ).rstrip()
        for line in lines
    ]
    results = [f"  {judgement}" for judgement in judgements]
    return "\n".join([f"{row.name}: {row.title}", *cells, *_extras(played), *results])


def legend(rows: Iterable[RowResult]) -> str:
    """Return the descriptions of all contestants, printed after the tables."""
    descriptions: dict[str, str] = {}
    for played in rows:
        descriptions |= played.descriptions
    width = max(map(len, descriptions), default=0)
    return "\n".join(
        textwrap.fill(
            description,
            _LEGEND_WIDTH,
            initial_indent=f"  {name.ljust(width)}  ",
            subsequent_indent=" " * (width + 4),
            break_on_hyphens=False,
        )
        for name, description in descriptions.items()
    )


def _ratio_columns(played: RowResult) -> dict[str, dict[str, str]]:
    """Return the columns of ratios by their headings, with the base of each contestant.

    There is a column for each base, or one for all if no contestant is compared twice.
    """
    pairs = list(played.neighbours)
    if len(played.bases) > 1 and len(pairs) == len({label for label, _ in pairs}):
        return {"of its base": dict(pairs)}
    return {f"of {base}": dict.fromkeys(played.labels, base) for base in played.bases}


def _line(played: RowResult, label: str, columns: Sequence[dict[str, str]]) -> list[str]:
    held = played.spread(label, "rss_kib")
    rate = played.spread(label, "requests_per_second")
    return [
        label,
        _amount(played.spread(label)),
        *(str(played.ratio(label, bases.get(label, "")) or "") for bases in columns),
        _milliseconds(played.spread(label, "p50_microseconds")),
        _milliseconds(played.spread(label, "p99_microseconds")),
        "" if rate is None else f"{rate.median:.0f}",
        "" if held is None else f"{held.median / 1024:.0f} MiB",
    ]


def _amount(found: Spread | None) -> str:
    return "" if found is None else f"{found.median:.1f} ({found.lowest:.1f}-{found.highest:.1f})"


def _milliseconds(found: Spread | None) -> str:
    return "" if found is None else f"{found.median / 1000:.2f} ms"


def _extras(played: RowResult) -> list[str]:
    """Return a line for each contestant with its extra figures."""
    lines = []
    for label in played.labels:
        names = dict.fromkeys(name for found in played.of(label) for name in found.extra)
        figures = [f"{name} {_amount(played.spread(label, name))}" for name in names]
        if figures:
            lines.append(f"  {label}: {', '.join(figures)}")
    return lines
