"""A breaker: an API server that does not answer costs milliseconds, not timeouts.

It never turns a failure into an answer. While it is open, questions fail at once; what was
remembered before is still served for as long as it lives.
"""

from collections.abc import Callable

from proxy.core.errors import UpstreamUnavailable

_FAILURES_TO_OPEN = 5
_OPEN_SECONDS = 1.0


class Breaker:
    """Opens after several failures in a row; then lets one question through each second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """Tell whether questions are being stopped."""
        return self._failures >= _FAILURES_TO_OPEN

    def check(self) -> None:
        """Let a question pass, or fail it at once."""
        if not self.is_open:
            return
        now = self._clock()
        if now < self._next_probe:
            raise UpstreamUnavailable(
                "access cannot be reviewed: the API server does not answer", retry_after_seconds=1
            )
        self._next_probe = now + _OPEN_SECONDS

    def succeeded(self) -> None:
        """Close: the API server answers."""
        self._failures = 0

    def failed(self) -> None:
        """Count a question that got no answer."""
        self._failures += 1
        self._next_probe = self._clock() + _OPEN_SECONDS
