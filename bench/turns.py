"""The order of turns, and their comparison: only neighbours, because the machine is noisy.

The two contestants of a pair run directly after each other. The preceding turn is not repeated for
the next pair, so `us` between `go-default` and `go-pooled` is the neighbour of both. Every second
round runs backwards, so that no contestant is always first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench.measurement import Measurement
from bench.ratios import Spread
from bench.row import Pair, Row, Side

_ASIDE_EVERY = 4

Both = tuple[Measurement, Measurement]


@dataclass(frozen=True, slots=True)
class RowResult:
    """All turns of a row, and the pairs of neighbours: the side's turn first, then its base's."""

    row: Row
    turns: list[tuple[Side, Measurement]] = field(default_factory=list)
    neighbours: dict[tuple[str, str], list[Both]] = field(default_factory=dict)
    load_averages: list[tuple[float, float, float]] = field(default_factory=list)

    @property
    def labels(self) -> list[str]:
        """Return the labels of all sides, in the order of their first turns."""
        return list(dict.fromkeys(side.label for side, _ in self.turns))

    @property
    def bases(self) -> list[str]:
        """Return the labels of all bases of comparison."""
        return list(dict.fromkeys(base for _, base in self.neighbours))

    @property
    def descriptions(self) -> dict[str, str]:
        """Return the descriptions of all contestants that had a turn, by name."""
        names = {side.entry for side, _ in self.turns}
        return {
            entry.name: entry.description for entry in self.row.scene.entries if entry.name in names
        }

    def of(self, label: str) -> list[Measurement]:
        """Return all measurements of a side."""
        return [found for side, found in self.turns if side.label == label]

    def spread(self, label: str, figure: str = "cost") -> Spread | None:
        """Return a side's figure over all turns; None if it has none."""
        return Spread.over(measurement.figure(figure) for measurement in self.of(label))

    def ratio(self, label: str, base: str, figure: str = "cost") -> Spread | None:
        """Return the ratio of a figure to the base's, by pair; None if they were never compared."""
        return Spread.over(
            mine / others if mine is not None and others else None
            for mine, others in self._figures(label, base, figure)
        )

    def added(self, label: str, base: str, figure: str = "cost") -> Spread | None:
        """Return the difference of a side's figure to the base's, by pair."""
        return Spread.over(
            mine - others if mine is not None and others is not None else None
            for mine, others in self._figures(label, base, figure)
        )

    def _figures(
        self, label: str, base: str, figure: str
    ) -> Iterator[tuple[float | None, float | None]]:
        for mine, others in self.neighbours.get((label, base), []):
            yield mine.figure(figure), others.figure(figure)


def play(row: Row, rounds: int, measure: Callable[[Side], Measurement]) -> RowResult:
    """Run all turns of a row, round by round."""
    played = RowResult(row)
    # The last rounds, fewer than four, contain only the pairs that are not asides.
    asides = range(0, max(rounds - _ASIDE_EVERY + 1, 1), _ASIDE_EVERY)
    pairs = [
        pair
        for number in range(rounds)
        for pair in _in_round(row.pairs, number, with_asides=number in asides)
    ]
    for pair, following in zip(pairs, [*pairs[1:], None], strict=True):
        last = played.turns[-1][0] if played.turns else None
        for side in _due(pair, last, following):
            played.turns.append((side, measure(side)))
        _record(pair, played)
    return played


def _in_round(pairs: Sequence[Pair], number: int, *, with_asides: bool) -> list[Pair]:
    chosen = [pair for pair in pairs if with_asides or not pair.is_aside]
    return chosen if number % 2 == 0 else chosen[::-1]


def _due(pair: Pair, last: Side | None, following: Pair | None) -> tuple[Side, ...]:
    """Return the sides to run for a pair, in the order that saves the next pair a turn."""
    sides = pair.sides()
    if last in sides and len(sides) > 1:
        return tuple(side for side in sides if side != last)
    upcoming = () if following is None else following.sides()
    return sides[::-1] if pair.base in upcoming and pair.side not in upcoming else sides


def _record(pair: Pair, played: RowResult) -> None:
    if pair.base is not None:
        found = dict(played.turns[-2:])
        played.neighbours.setdefault((pair.side.label, pair.base.label), []).append(
            (found[pair.side], found[pair.base])
        )
