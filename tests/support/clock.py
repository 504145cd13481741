"""A clock that only moves when it is told to."""


class FakeClock:
    """Seconds since nothing in particular."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
