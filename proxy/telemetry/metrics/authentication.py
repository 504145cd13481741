"""Metrics of bearer tokens and TokenReviews."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

# 1 ms doubling up to 16 s: slightly above the timeout of a review.
_BUCKETS = tuple(0.001 * 2**power for power in range(15))


class TokenMetrics:
    """Metrics of reviewed and rejected tokens. No label identifies a user or an address."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "understudy_token_review_duration_seconds",
            "Duration of TokenReviews, including queueing, by outcome: authenticated, refused or "
            "error.",
            ("outcome",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._rejected = Counter(
            "understudy_tokens_rejected_total",
            "Tokens that were not reviewed, by reason: address, turn, abandoned or size.",
            ("reason",),
            registry=registry,
        )
        self.hits = self.misses = 0
        """Lookups of cached TokenReview results."""
        registry.register(_TokenLookups(self))

    def token_reviewed(self, outcome: str, seconds: float) -> None:
        """Count one review; `outcome` is authenticated, refused or error."""
        self._seconds.labels(outcome).observe(seconds)

    def token_rejected(self, reason: str) -> None:
        """Count one token that was not reviewed; `reason` is address, turn, abandoned or size."""
        self._rejected.labels(reason).inc()


class _TokenLookups(Collector):
    def __init__(self, metrics: TokenMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "understudy_token_cache_lookups_total",
            "Lookups of cached TokenReview results, positive or negative, by result: hit or miss.",
            labels=("result",),
        )
        family.add_metric(("hit",), self._metrics.hits)
        family.add_metric(("miss",), self._metrics.misses)
        return [family]
