"""Comparing contestants: only inside one run, turn by turn, because the machine is noisy."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """One contestant's cost as a share of another's: the median of all rounds, and their range."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f}-{self.highest:.2f})"


def ratio(costs: Sequence[float], others: Sequence[float]) -> Ratio:
    """Compare costs with the others' of the same rounds: what slowed a round slowed both."""
    shares = [cost / other for cost, other in zip(costs, others, strict=True)]
    return Ratio(statistics.median(shares), min(shares), max(shares))
