"""The selection of contestants for a run, applied to scenes and rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.contestants import Entry, from_checkout, other_name
from bench.row import Pair, Row, Scene, Side


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection for one run."""

    names: frozenset[str] = frozenset()
    """The chosen contestants; all if empty."""
    code: Path | None = None
    """The directory of the proxy's code; None for this checkout."""
    beside: Path | None = None
    """Another checkout, whose proxy is compared with this one."""

    def entries(self, scene: Scene) -> dict[str, Entry]:
        """Return the entries of a scene that can be run, by name."""
        found = [self._with_code(entry) for entry in scene.entries if self._is_chosen(entry.name)]
        if self.beside is not None:
            found += [from_checkout(entry, self.beside) for entry in found if entry.is_proxy]
        return {entry.name: entry for entry in found}

    def _is_chosen(self, name: str) -> bool:
        return not self.names or name in self.names

    def _with_code(self, entry: Entry) -> Entry:
        return replace(entry, checkout=self.code) if entry.is_proxy else entry

    def row(self, row: Row) -> Row:
        """Return a row with the pairs that can be run; a side without a base is run alone."""
        entries = self.entries(row.scene)
        pairs = [pair for pair in row.pairs if _names(pair) <= entries.keys()]
        paired = {side for pair in pairs for side in pair.sides()}
        available = (side for pair in row.pairs for side in pair.sides() if side.entry in entries)
        pairs += [Pair(side) for side in dict.fromkeys(available) if side not in paired]
        if self.beside is not None:
            pairs += _other_checkout_pairs(pairs, entries)
        return replace(row, pairs=tuple(pairs))

    def missing(self, rows: Iterable[Row]) -> list[str]:
        """Return the names that rows use and that are chosen, but have no entry."""
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


def _other_checkout_pairs(pairs: Sequence[Pair], entries: dict[str, Entry]) -> list[Pair]:
    """Return a pair of each proxy entry with the same entry of the other checkout."""
    sides = dict.fromkeys(side for pair in pairs for side in pair.sides())
    return [
        Pair(side, Side(other_name(side.entry), side.variant))
        for side in sides
        if entries[side.entry].is_proxy
    ]
