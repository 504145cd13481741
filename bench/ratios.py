"""Several readings of one quantity, summarized."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of all readings, and their range."""

    median: float
    lowest: float
    highest: float

    @staticmethod
    def over(readings: Iterable[float | None]) -> "Spread | None":
        """Return the spread of the readings that are not None; None if there are none."""
        there = [reading for reading in readings if reading is not None]
        return Spread(statistics.median(there), min(there), max(there)) if there else None

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f}-{self.highest:.2f})"
