"""Who takes part in this run: what was asked for, applied to scenes and rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.contestants import Entry, from_checkout, other_name
from bench.row import Pair, Row, Scene, Side


@dataclass(frozen=True, slots=True)
class Cast:
    """The choice for one run."""

    names: frozenset[str] = frozenset()
    """Who takes part; everybody if empty."""
    code: Path | None = None
    """The directory our own code is taken from; None for that beside this file."""
    beside: Path | None = None
    """Another checkout of the project; each of ours is also compared with that one."""

    def entries(self, scene: Scene) -> dict[str, Entry]:
        """Return everybody who may take part in a scene, by name."""
        found = [self._with_code(entry) for entry in scene.entries if self._is_chosen(entry.name)]
        if self.beside is not None:
            found += [from_checkout(entry, self.beside) for entry in found if entry.is_ours]
        return {entry.name: entry for entry in found}

    def _is_chosen(self, name: str) -> bool:
        return not self.names or name in self.names

    def _with_code(self, entry: Entry) -> Entry:
        return replace(entry, checkout=self.code) if entry.is_ours else entry

    def row(self, row: Row) -> Row:
        """Return a row with the pairs that can be played; who has lost all others plays alone."""
        entries = self.entries(row.scene)
        pairs = [pair for pair in row.pairs if _names(pair) <= entries.keys()]
        met = {side for pair in pairs for side in pair.sides()}
        there = (side for pair in row.pairs for side in pair.sides() if side.entry in entries)
        pairs += [Pair(side) for side in dict.fromkeys(there) if side not in met]
        if self.beside is not None:
            pairs += _befores(pairs, entries)
        return replace(row, pairs=tuple(pairs))

    def missing(self, rows: Iterable[Row]) -> list[str]:
        """Return who is named by a row and chosen, but does not exist."""
        return sorted(
            {
                name
                for row in rows
                for pair in row.pairs
                for name in _names(pair) - self.entries(row.scene).keys()
                if self._is_chosen(name)
            }
        )


def _names(pair: Pair) -> set[str]:
    return {side.entry for side in pair.sides()}


def _befores(pairs: Sequence[Pair], entries: dict[str, Entry]) -> list[Pair]:
    """Return a pair for each of ours with itself as it is in the other checkout."""
    sides = dict.fromkeys(side for pair in pairs for side in pair.sides())
    return [
        Pair(side, Side(other_name(side.entry), side.variant))
        for side in sides
        if entries[side.entry].is_ours
    ]
