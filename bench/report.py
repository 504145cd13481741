"""The outcome of a run, for people and for later comparison."""

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from bench.contestants import GO_DEFAULT, GO_POOLED, Entry, other_name
from bench.measurement import Load, Measurement
from bench.ratios import Ratio, ratio
from bench.stage import Counts

Turns = dict[str, list[Measurement]]

_HEADER = ("", "CPU/request", "to go-default", "to go-pooled", "to other", "p50", "p99", "req/s")


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one run has found out; `turns` has one measurement per contestant and round."""

    started_at: datetime
    load: Load
    entries: Sequence[Entry]
    turns: Turns
    reviews: Counts
    load_averages: list[tuple[float, float, float]] = field(default_factory=list)

    def ratio(self, name: str, other: str) -> Ratio | None:
        """Compare the CPU per request of two contestants, round by round; None if one is absent."""
        if name not in self.turns or other not in self.turns:
            return None
        return ratio(self._costs(name), self._costs(other))

    def _costs(self, name: str) -> list[float]:
        return [turn.cpu_microseconds for turn in self.turns[name]]


def table(report: Report) -> str:
    """Return the table that people read, the fastest way to see who costs what."""
    rows = [_HEADER, *(_row(report, entry) for entry in report.entries)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    legend = [f"  {entry.name}: {entry.description}" for entry in report.entries]
    return "\n".join([*lines, "", *legend])


def _others(entry: Entry) -> tuple[str, str, str]:
    """Return whom a contestant is compared with."""
    return GO_DEFAULT.name, GO_POOLED.name, other_name(entry)


def _row(report: Report, entry: Entry) -> tuple[str, ...]:
    turns = report.turns[entry.name]
    return (
        entry.name,
        f"{statistics.median(turn.cpu_microseconds for turn in turns):.1f} us",
        *(str(report.ratio(entry.name, other) or "") for other in _others(entry)),
        f"{statistics.median(turn.p50_microseconds for turn in turns) / 1000:.1f} ms",
        f"{statistics.median(turn.p99_microseconds for turn in turns) / 1000:.1f} ms",
        f"{statistics.median(turn.requests_per_second for turn in turns):.0f}",
    )


def write_results(report: Report, directory: Path) -> Path:
    """Write the run with all its turns as JSON, named by its time, and return the file."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{report.started_at:%Y-%m-%dT%H%M%SZ}-small-get.json"
    document = {
        "startedAt": report.started_at.isoformat(timespec="seconds"),
        "cpus": os.cpu_count(),
        "loadAverages": report.load_averages,
        "load": asdict(report.load),
        "reviews": {
            "tokens": report.reviews.token_reviews,
            "access": report.reviews.access_reviews,
        },
        "contestants": [
            {
                "name": entry.name,
                "description": entry.description,
                "ratios": {
                    other: asdict(found)
                    for other in _others(entry)
                    if (found := report.ratio(entry.name, other)) is not None
                },
                "turns": [asdict(turn) for turn in report.turns[entry.name]],
            }
            for entry in report.entries
        ],
    }
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file
