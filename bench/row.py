"""One kind of work, and who is compared in it: see the package's docstring."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bench.contestants import Contestant, Entry
from bench.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Side:
    """A contestant by its name, under conditions that the row knows; "" are the usual ones."""

    entry: str
    variant: str = ""

    @property
    def label(self) -> str:
        """What tables and bars call it."""
        return f"{self.entry} [{self.variant}]" if self.variant else self.entry


@dataclass(frozen=True, slots=True)
class Pair:
    """Who is compared with whom; without a base it only has its turn."""

    side: Side
    base: Side | None = None
    is_aside: bool = False
    """For the picture as a whole: no bar needs it, so it is played in every fourth round only."""

    def sides(self) -> tuple[Side, ...]:
        """Return both, or the only one."""
        return (self.side,) if self.base is None else (self.base, self.side)


@dataclass(frozen=True, slots=True)
class Effort:
    """How often a row is played, and how long one turn is."""

    rounds: int
    seconds: float
    size: int = 0
    """How much there is of what the row lets grow, if anything."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn is to be."""

    variant: str
    seconds: float
    size: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """What rows are played in. Its surroundings are given to every entry's `start`."""

    name: str
    open: Callable[[], AbstractContextManager[Any]]
    entries: Sequence[Entry]


# The surroundings are whatever the row's scene opens.
Measure = Callable[[Contestant, Any, Turn], Measurement]


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work: who is compared, and how one turn of it is measured."""

    name: str
    title: str
    unit: str
    """What the first figure, `Measurement.cost`, is in."""
    scene: Scene
    pairs: tuple[Pair, ...]
    measure: Measure
    quick: Effort
    full: Effort


def against(base: str, *names: str, is_aside: bool = False) -> tuple[Pair, ...]:
    """Return the pairs of several contestants with one."""
    return tuple(Pair(Side(name), Side(base), is_aside) for name in names)
