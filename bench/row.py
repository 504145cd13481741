"""One kind of work, and the contestants that it compares: see the package's docstring."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bench.contestants import Contestant, Entry
from bench.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Side:
    """A contestant by name, under conditions that the row defines; "" are the default ones."""

    entry: str
    variant: str = ""

    @property
    def label(self) -> str:
        """Return the name in tables and bars."""
        return f"{self.entry} [{self.variant}]" if self.variant else self.entry


@dataclass(frozen=True, slots=True)
class Pair:
    """A side and the base that it is compared with; without a base it is only measured."""

    side: Side
    base: Side | None = None
    is_aside: bool = False
    """Additional information that no bar needs, so it runs in every fourth round only."""

    def sides(self) -> tuple[Side, ...]:
        """Return the base and the side, or the side alone."""
        return (self.side,) if self.base is None else (self.base, self.side)


@dataclass(frozen=True, slots=True)
class Effort:
    """How often a row is run, and the duration of one turn."""

    rounds: int
    seconds: float
    size: int = 0
    """The size of what the row scales, if anything."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The parameters of one turn."""

    variant: str
    seconds: float
    size: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """The environment of rows. What `open` yields is passed to every entry's `start`."""

    name: str
    open: Callable[[], AbstractContextManager[Any]]
    entries: Sequence[Entry]


# The second argument is what the row's scene yields.
Measure = Callable[[Contestant, Any, Turn], Measurement]


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work: what is compared, and how one turn of it is measured."""

    name: str
    title: str
    unit: str
    """The unit of the first figure, `Measurement.cost`."""
    scene: Scene
    pairs: tuple[Pair, ...]
    measure: Measure
    quick: Effort
    full: Effort


def against(base: str, *names: str, is_aside: bool = False) -> tuple[Pair, ...]:
    """Return the pairs of several contestants with one."""
    return tuple(Pair(Side(name), Side(base), is_aside) for name in names)
