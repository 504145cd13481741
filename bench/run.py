"""Running rows scene by scene; each contestant of a scene is started once."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bench.cast import Selection
from bench.contestants import Contestant
from bench.measurement import Measurement
from bench.row import Effort, Row, Side, Turn
from bench.turns import RowResult, play

Progress = Callable[[Row, Side, Measurement], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """The effort of a run: each row's own for a quick or a full run, unless overridden."""

    is_quick: bool = False
    rounds: int | None = None
    seconds: float | None = None

    def of(self, row: Row) -> Effort:
        """Return the effort for a row."""
        default = row.quick if self.is_quick else row.full
        return Effort(self.rounds or default.rounds, self.seconds or default.seconds, default.size)


def run(
    rows: Sequence[Row], cast: Selection, extent: Extent, tell: Progress
) -> Iterator[RowResult]:
    """Run rows in order, and yield each when it is complete."""
    chosen = [fitting for row in rows if (fitting := cast.row(row)).pairs]
    for scene, scene_rows in groupby(chosen, key=lambda row: row.scene):
        with scene.open() as surroundings, ExitStack() as running:
            in_scene = list(scene_rows)
            entries = cast.entries(scene)
            contestants = {
                name: running.enter_context(entries[name].start(entries[name], surroundings))
                for name in _names(in_scene)
            }
            for row in in_scene:
                yield _play(row, contestants, surroundings, effort=extent.of(row), tell=tell)


def _names(rows: Sequence[Row]) -> list[str]:
    sides = (side for row in rows for pair in row.pairs for side in pair.sides())
    return list(dict.fromkeys(side.entry for side in sides))


def _play(
    row: Row,
    contestants: dict[str, Contestant],
    surroundings: Any,
    *,
    effort: Effort,
    tell: Progress,
) -> RowResult:
    def measure(side: Side) -> Measurement:
        turn = Turn(side.variant, effort.seconds, effort.size)
        found = row.measure(contestants[side.entry], surroundings, turn)
        tell(row, side, found)
        return found

    played = play(row, effort.rounds, measure)
    played.load_averages.append(os.getloadavg())
    return played
