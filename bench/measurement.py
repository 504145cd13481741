"""The result of one turn of one contestant."""

from collections.abc import Mapping
from dataclasses import dataclass, field


class WrongAnswer(Exception):
    """A contestant did not do its work, so its cost is meaningless."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one turn; those that the row does not measure are None."""

    cost: float | None
    """The row's first figure, in its unit: mostly microseconds of CPU per request."""
    requests: int
    p50_microseconds: float | None = None
    p99_microseconds: float | None = None
    requests_per_second: float | None = None
    rss_kib: float | None = None
    """The resident memory at the end of the turn."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Figures by name that only this row, or only this proxy, has."""

    def figure(self, name: str) -> float | None:
        """Return a figure by its name: one of those above, or one of the extra ones."""
        if name in self.extra:
            return self.extra[name]
        value: float | None = getattr(self, name, None)
        return value
