"""The results of a run, with all its turns, as JSON."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.bars import BarResult
from bench.turns import RowResult

RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run: each row, and its bars."""

    started_at: datetime
    is_quick: bool
    rows: list[tuple[RowResult, list[BarResult]]] = field(default_factory=list)

    @property
    def missed(self) -> list[BarResult]:
        """Return every bar that is not met."""
        return [
            judgement
            for _, judgements in self.rows
            for judgement in judgements
            if not judgement.is_met
        ]


def write_results(outcome: Outcome, directory: Path) -> Path:
    """Write a run, named by its time, and return the file."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{outcome.started_at:%Y-%m-%dT%H%M%SZ}.json"
    file.write_text(json.dumps(_document(outcome), indent=1) + "\n")
    return file


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        "startedAt": outcome.started_at.isoformat(timespec="seconds"),
        "isQuick": outcome.is_quick,
        "cpus": os.cpu_count(),
        "rows": [row_document(played, judgements) for played, judgements in outcome.rows],
    }


def row_document(played: RowResult, judgements: Sequence[BarResult]) -> dict[str, Any]:
    """Return a row with all its turns and bars."""
    row = played.row
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "contestants": played.descriptions,
        "loadAverages": played.load_averages,
        "costs": _spreads((label, played.spread(label)) for label in played.labels),
        "ratios": {
            label: _spreads((base, played.ratio(label, base)) for base in played.bases)
            for label in played.labels
        },
        "bars": [
            {
                "bar": str(judgement.bar),
                "isMet": judgement.is_met,
                "found": None if judgement.found is None else asdict(judgement.found),
            }
            for judgement in judgements
        ],
        "turns": [
            {"contestant": side.label, **asdict(measurement)} for side, measurement in played.turns
        ],
    }


def _spreads(found: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: asdict(spread) for name, spread in found if spread is not None}
