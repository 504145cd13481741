"""A clock that only moves when it is told to."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Seconds since nothing in particular."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def nanoseconds(moment: datetime) -> int:
    """Return a moment as the clock of trails tells it."""
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000
