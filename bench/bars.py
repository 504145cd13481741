"""Limits of the benchmark, as data, and their evaluation.

The median over all neighbouring turns is compared with the limit. A bar without a measurement is
missed, because an unknown result is not a success.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bench.ratios import Spread
from bench.turns import RowResult


class Kind(Enum):
    """The quantity that is compared with the limit."""

    AMOUNT = "amount"
    """The figure itself."""
    RATIO = "ratio"
    """The ratio to the base's figure."""
    ADDED = "added"
    """The difference to the base's figure."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit: the figure of `side` in a row is at most `limit`, or below it if strict."""

    row: str
    side: str
    limit: float
    kind: Kind = Kind.AMOUNT
    base: str = ""
    figure: str = "cost"
    is_strict: bool = False
    """Whether the limit itself is already missed."""

    def __str__(self) -> str:
        sign = "<" if self.is_strict else "<="
        figure = "" if self.figure == "cost" else f" {self.figure}"
        text = f"{self.side}{figure} {sign} {self.limit:g}"
        match self.kind:
            case Kind.AMOUNT:
                return text
            case Kind.RATIO:
                return f"{text} of {self.base}"
            case Kind.ADDED if self.is_strict and self.limit == 0:
                return f"{self.side}{figure} below {self.base}"
            case Kind.ADDED:
                return f"{text} more than {self.base}"


def ratio(row: str, side: str, limit: float, *, of: str, is_strict: bool = False) -> Bar:
    """Return a bar for the ratio to another contestant's figure."""
    return Bar(row, side, limit, Kind.RATIO, of, is_strict=is_strict)


def below(row: str, side: str, base: str) -> Bar:
    """Return a bar for a figure that may be negative: below another contestant's."""
    return Bar(row, side, 0.0, Kind.ADDED, base, is_strict=True)


BARS: tuple[Bar, ...] = (
    ratio("small-get-c64", "us", 0.50, of="go-default"),
    ratio("small-get-c64", "us", 0.75, of="go-pooled"),
    ratio("small-get-c64", "us", 1.00, of="envoy", is_strict=True),
    Bar("small-get-c64", "us+audit", 15.0, Kind.ADDED, "us"),
    ratio("small-get-c64", "us+audit", 0.65, of="go-default"),
    ratio("small-get-c1", "us", 0.60, of="go-default"),
    ratio("list-500k", "us", 1.05, of="go-default"),
    Bar("idle-watch", "us", 50.0, figure="KiB a stream, 1000 open"),
    Bar("idle-watch", "us", 50.0, figure="KiB a stream, 5000 open"),
    ratio("watch-events", "us", 0.90, of="go-default"),
    ratio("connections", "us [999 idle]", 1.20, of="us [alone]"),
    ratio("connections", "us [1000 at once]", 1.20, of="us [alone]"),
    ratio("decision-memory", "us knowing 1000", 1.20, of="us knowing 1"),
    ratio("decision-memory", "us knowing many", 1.20, of="us knowing 1"),
    ratio("decision-memory", "us knowing many [1000]", 1.20, of="us knowing 1000 [1000]"),
    *(
        Bar("cold-decision", f"us [{case}]", limit, figure="round trips a mode")
        for case, limit in (
            ("1 group", 2),
            ("10 groups", 2),
            ("100 groups", 2),
            ("100 by name", 3),
            ("legacy, 1 group", 2),
            ("legacy, 10 groups", 2),
        )
    ),
    *(
        below("cached-decision", f"us [{identity}]", f"native [{identity}]")
        for identity in ("user", "10 groups", "100 groups")
    ),
)


@dataclass(frozen=True, slots=True)
class BarResult:
    """The result of a bar: the measured spread."""

    bar: Bar
    found: Spread | None

    @property
    def is_met(self) -> bool:
        """Return whether it was measured and is within the limit."""
        if self.found is None:
            return False
        limit = self.bar.limit
        return self.found.median < limit if self.bar.is_strict else self.found.median <= limit

    def __str__(self) -> str:
        outcome = "bar met   " if self.is_met else "bar missed"
        return f"{outcome}  {self.bar}: {self.found or 'not measured'}"


def evaluate_bars(played: RowResult, bars: Sequence[Bar] = BARS) -> list[BarResult]:
    """Return the results of the bars of one row."""
    return [BarResult(bar, _found(bar, played)) for bar in bars if bar.row == played.row.name]


def _found(bar: Bar, played: RowResult) -> Spread | None:
    match bar.kind:
        case Kind.AMOUNT:
            return played.spread(bar.side, bar.figure)
        case Kind.RATIO:
            return played.ratio(bar.side, bar.base, bar.figure)
        case Kind.ADDED:
            return played.added(bar.side, bar.base, bar.figure)
