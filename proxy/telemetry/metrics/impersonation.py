"""Metrics of impersonation, access reviews and shadow evaluation; label sets are closed.

The four impersonation series have kube-apiserver's names, labels and buckets, so that dashboards
and alerts written for kube-apiserver work here.
"""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from proxy.telemetry.metrics.collectors import FastCounter, FastHistogram, HistogramCount

_LABELS = ("mode", "decision")
_REQUEST_HIT = ("request", "hit")
# 1 ms doubling fifteen times, as in kube-apiserver.
_BUCKETS = tuple(0.001 * 2**power for power in range(15))

# kube-apiserver exposes no _created series, and the exposition here must equal it.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types there


class ImpersonationMetrics:
    """Metrics of impersonation decisions and access reviews."""

    def __init__(self, registry: CollectorRegistry, *, kep_names: bool = False) -> None:
        """`kep_names` adds the metric names of the KEP's text, which no Kubernetes release has."""
        self.registry = registry
        self._attempt_seconds = FastHistogram(
            "apiserver_impersonation_attempts_duration_seconds",
            "[ALPHA] Latency of impersonation attempts in seconds split by mode and decision.",
            _LABELS,
            buckets=_BUCKETS,
            registry=registry,
        )
        HistogramCount(
            self._attempt_seconds,
            "apiserver_impersonation_attempts_total",
            "[ALPHA] Total number of impersonation attempts split by mode and decision.",
        )
        self._checks = Counter(
            "apiserver_impersonation_authorization_attempts_total",
            "[ALPHA] Total number of authorization checks made by the impersonation handler split "
            "by mode and decision.",
            _LABELS,
            registry=registry,
        )
        self._check_seconds = Histogram(
            "apiserver_impersonation_authorization_attempts_duration_seconds",
            "[ALPHA] Latency of authorization checks made by the impersonation handler in seconds "
            "split by mode and decision.",
            _LABELS,
            buckets=_BUCKETS,
            registry=registry,
        )
        self._reviews = Counter(
            "understudy_access_reviews_total",
            "SubjectAccessReviews sent, by outcome: allowed, denied, refused (the API server "
            "rejected the review itself) or error.",
            ("outcome",),
            registry=registry,
        )
        self._review_seconds = Histogram(
            "understudy_access_review_duration_seconds",
            "Duration of SubjectAccessReviews, including queueing, by outcome: allowed, denied, "
            "refused or error.",
            ("outcome",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._breaker = Gauge(
            "understudy_review_breaker_open",
            "1 while the circuit breaker fails access reviews at once because the API server does "
            "not answer, else 0.",
            registry=registry,
        )
        self._unused_reviews = Counter(
            "understudy_access_reviews_unused_total",
            "Prefetched SubjectAccessReviews whose result the decision did not need.",
            registry=registry,
        )
        self._cache_lookups = FastCounter(
            "understudy_decision_cache_lookups_total",
            "Lookups of cached decisions, by cache (request, identity) and result (hit, miss).",
            ("cache", "result"),
            registry=registry,
        )
        self._pod_lookups = Counter(
            "understudy_pod_lookups_total",
            "Pod lookups to find the caller's node, by outcome: found, none or error.",
            ("outcome",),
            registry=registry,
        )
        self._kep: _KepNames | None = None
        self.use_kep_names(use=kep_names)

    def use_kep_names(self, *, use: bool) -> None:
        """Enable or disable the additional metric names of the KEP's text."""
        if use and self._kep is None:
            self._kep = _KepNames(self.registry)
        elif not use and self._kep is not None:
            self._kep.unregister(self.registry)
            self._kep = None

    def impersonation_decided(self, mode: str, *, allowed: bool, seconds: float) -> None:
        """Count one impersonation; a denied one has no mode."""
        labels = (mode, "allowed") if allowed else ("", "denied")
        self._attempt_seconds.add(labels, seconds)
        if self._kep is not None:
            self._kep.impersonation_decided(mode, allowed=allowed, seconds=seconds)

    def check_completed(self, mode: str, *, allowed: bool, seconds: float) -> None:
        """Count one check result that the decision used."""
        labels = (mode, _decision(allowed=allowed))
        self._checks.labels(*labels).inc()
        self._check_seconds.labels(*labels).observe(seconds)
        if self._kep is not None:
            self._kep.check_completed(mode, allowed=allowed, seconds=seconds)

    def review_ended(self, outcome: str, seconds: float) -> None:
        """Count one review sent; `outcome` is allowed, denied, refused or error."""
        self._reviews.labels(outcome).inc()
        self._review_seconds.labels(outcome).observe(seconds)

    def watch_breakers(self, is_any_open: Callable[[], bool]) -> None:
        """Register the gauge of circuit breakers, evaluated at every scrape."""
        self._breaker.set_function(is_any_open)

    def reviews_unused(self, count: int) -> None:
        """Count prefetched results that were not needed."""
        self._unused_reviews.inc(count)

    def cache_looked_up(self, cache: str, *, hit: bool) -> None:
        """Count a lookup in a decision cache."""
        self._cache_lookups.add((cache, "hit" if hit else "miss"))

    def cached_decision(self, mode: str, seconds: float, *, has_modes: bool) -> None:
        """Count an impersonation that a cached decision of an equal request allowed."""
        self._cache_lookups.counts[_REQUEST_HIT] += 1.0
        # The pre-1.35 impersonation filter, which has no modes, has no metrics.
        if has_modes:
            self._attempt_seconds.add((mode, "allowed"), seconds)
            if self._kep is not None:
                self._kep.impersonation_decided(mode, allowed=True, seconds=seconds)

    def pod_looked_up(self, outcome: str) -> None:
        """Count one pod lookup; `outcome` is found, none or error."""
        self._pod_lookups.labels(outcome).inc()


class _KepNames:
    """The histograms under the names of the KEP's text.

    The KEP's third name equals kube-apiserver's counter but has another label, so the two cannot
    be registered together.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "apiserver_impersonation_duration_seconds",
            "Latency of impersonation; status is the mode that succeeded, or failed.",
            ("status",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._check_seconds = Histogram(
            "apiserver_impersonation_authorization_duration_seconds",
            "Latency of impersonation's authorization checks by mode and decision.",
            _LABELS,
            buckets=_BUCKETS,
            registry=registry,
        )

    def unregister(self, registry: CollectorRegistry) -> None:
        for histogram in (self._seconds, self._check_seconds):
            registry.unregister(histogram)

    def impersonation_decided(self, mode: str, *, allowed: bool, seconds: float) -> None:
        self._seconds.labels(mode if allowed else "failed").observe(seconds)

    def check_completed(self, mode: str, *, allowed: bool, seconds: float) -> None:
        self._check_seconds.labels(mode, _decision(allowed=allowed)).observe(seconds)


def _decision(*, allowed: bool) -> str:
    return "allowed" if allowed else "denied"


class ShadowMetrics:
    """Results of shadow evaluation. No label identifies a user."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = FastCounter(
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

    def shadow_evaluated(self, outcome: str, mode: str, count: int = 1) -> None:
        """Count requests; `mode` is empty if nothing was evaluated."""
        self._requests.add((outcome, mode), count)

    def review_ended(self, outcome: str, seconds: float) -> None:  # noqa: ARG002 - no request waits
        """Count one review; `outcome` is allowed, denied, refused or error."""
        self._reviews.labels(outcome).inc()
