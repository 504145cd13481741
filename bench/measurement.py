"""What came of one turn of one contestant."""

from collections.abc import Mapping
from dataclasses import dataclass, field


class WrongAnswer(Exception):
    """A contestant did not do its work, so what it cost means nothing."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one turn; a figure that the row does not tell is None."""

    cost: float | None
    """The row's first figure, in its unit: for most, us of CPU of the proxy for a request."""
    requests: int
    p50_microseconds: float | None = None
    p99_microseconds: float | None = None
    requests_per_second: float | None = None
    rss_kib: float | None = None
    """What the process held at the end of the turn."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """What only this row tells, or only ours, by name."""

    def figure(self, name: str) -> float | None:
        """Return a figure by its name: one of those above, or one of the extra ones."""
        if name in self.extra:
            return self.extra[name]
        value: float | None = getattr(self, name, None)
        return value
