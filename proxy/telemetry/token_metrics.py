"""What is counted about bearer tokens, on a registry that is passed in."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

# 1 ms doubling up to 16 s: the longest a review may take, and a bit.
_BUCKETS = tuple(0.001 * 2**power for power in range(15))


class TokenMetrics:
    """Reviews of tokens, and tokens that were not reviewed. Never whose, nor from where."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "understudy_token_review_duration_seconds",
            "TokenReviews, waiting included, by outcome: authenticated, refused or error.",
            ("outcome",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._turned_away = Counter(
            "understudy_tokens_turned_away_total",
            "Tokens told 429 unreviewed, by reason: address (too many unknown ones came from it) "
            "or turn (too many were under way from everywhere).",
            ("reason",),
            registry=registry,
        )
        self._registry = registry

    def watch_memory(self, lookups: Callable[[], tuple[int, int]]) -> None:
        """Show how many tokens were remembered, and how many were not, by numbers that grow."""
        self._registry.register(_TokenLookups(lookups))

    def token_reviewed(self, outcome: str, seconds: float) -> None:
        """Count one review; `outcome` is authenticated, refused or error."""
        self._seconds.labels(outcome).observe(seconds)

    def token_turned_away(self, reason: str) -> None:
        """Count one token that was not reviewed; `reason` is address or turn."""
        self._turned_away.labels(reason).inc()


class _TokenLookups(Collector):
    def __init__(self, lookups: Callable[[], tuple[int, int]]) -> None:
        self._lookups = lookups

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "understudy_token_cache_lookups_total",
            "Look-ups of earlier reviews of tokens, good or bad, by result: hit or miss.",
            labels=("result",),
        )
        for result, count in zip(("hit", "miss"), self._lookups(), strict=True):
            family.add_metric((result,), count)
        return [family]
