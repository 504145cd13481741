"""What is counted about requests judged in the shadow; label values come from closed sets."""

from prometheus_client import CollectorRegistry, Counter

from proxy.telemetry.tallies import CounterTally


class ShadowMetrics:
    """What the constrained rules would have said. Never of whom."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = CounterTally(
            "understudy_shadow_requests_total",
            "Requests permitted by legacy impersonation, by the outcome and the mode that the "
            "constrained rules would give.",
            ("outcome", "mode"),
            registry=registry,
        )
        self._reviews = Counter(
            "understudy_shadow_reviews_total",
            "SubjectAccessReviews sent for shadow evaluation, by outcome: allowed, denied, "
            "refused or error.",
            ("outcome",),
            registry=registry,
        )

    def shadowed(self, outcome: str, mode: str, count: int = 1) -> None:
        """Count requests; `mode` is empty where nothing was judged."""
        self._requests.add((outcome, mode), count)

    def review_ended(self, outcome: str, seconds: float) -> None:  # noqa: ARG002 - nobody waits
        """Count one review; `outcome` is allowed, denied, refused or error."""
        self._reviews.labels(outcome).inc()
