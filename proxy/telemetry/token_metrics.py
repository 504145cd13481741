"""What is counted about bearer tokens, on a registry that is passed in."""

from prometheus_client import CollectorRegistry, Counter, Histogram

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

    def token_reviewed(self, outcome: str, seconds: float) -> None:
        """Count one review; `outcome` is authenticated, refused or error."""
        self._seconds.labels(outcome).observe(seconds)

    def token_turned_away(self, reason: str) -> None:
        """Count one token that was not reviewed; `reason` is address or turn."""
        self._turned_away.labels(reason).inc()
