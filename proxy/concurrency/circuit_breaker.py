"""A circuit breaker for access reviews: while none is answered, checks fail without a timeout.

Failed reviews alone do not open it, because a caller may cause them: by what its request contains,
or by an authorizer that is slow for that caller. A probe, which no caller influences, confirms the
failure. The breaker opens when several reviews in a row and then a probe have failed. It closes
when a probe or a review is answered.

It never turns a failure into a decision. While it is open, access checks fail at once. Cached
decisions are used until they expire.
"""

import logging
from collections.abc import Callable

from proxy.core.errors import UpstreamUnavailable

log = logging.getLogger(__name__)

FAILURES_TO_SUSPECT = 5


class CircuitBreaker:
    """Stops access checks while neither reviews nor probes are answered."""

    def __init__(self, request_probe: Callable[[], None]) -> None:
        """`request_probe` requests an early probe; `on_probe` must be called with each result."""
        self._request_probe = request_probe
        self._failures = 0
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Return whether access checks are being stopped."""
        return self._is_open

    def check(self) -> None:
        """Raise UpstreamUnavailable while the breaker is open."""
        if self._is_open:
            raise UpstreamUnavailable(
                "access cannot be reviewed: the API server does not answer", retry_after_seconds=1
            )

    def succeeded(self) -> None:
        """Record a review that was answered, and close."""
        self._failures = 0
        self._set_open(is_open=False)

    def failed(self) -> None:
        """Record a review that was not answered; request a probe after several in a row."""
        self._failures += 1
        if self._failures >= FAILURES_TO_SUSPECT and not self._is_open:
            self._request_probe()

    def on_probe(self, *, answered: bool) -> None:
        """Process the result of every probe; open or close accordingly."""
        if answered:
            self.succeeded()
        elif self._failures >= FAILURES_TO_SUSPECT:
            self._set_open(is_open=True)

    def _set_open(self, *, is_open: bool) -> None:
        if is_open is self._is_open:
            return
        self._is_open = is_open
        if is_open:
            log.warning("review breaker opened")
        else:
            log.info("review breaker closed")
