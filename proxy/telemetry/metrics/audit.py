"""Metrics of audit backends and of the audit policy; label sets are closed."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class AuditMetrics:
    """Metrics of audit events by backend; `backend` is log or webhook."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stored = Counter(
            "understudy_audit_events_stored_total",
            "Audit events written to the log or accepted by the webhook.",
            ("backend",),
            registry=registry,
        )
        self._lost = Counter(
            "understudy_audit_events_lost_total",
            "Audit events that a backend lost, by reason: buffer-full, refused (rejected by the "
            "webhook) or shutdown.",
            ("backend", "reason"),
            registry=registry,
        )
        self._failures = Counter(
            "understudy_audit_backend_failures_total",
            "Failed attempts of an audit backend, by reason: write, rotate, tidy, send or "
            "credential. A failure alone loses no event.",
            ("backend", "reason"),
            registry=registry,
        )
        self._waiting = Gauge(
            "understudy_audit_events_queued",
            "Audit events in memory that the backend has not stored yet.",
            ("backend",),
            registry=registry,
        )
        self._rejected = Counter(
            "understudy_audit_requests_rejected_total",
            "Requests answered 500 because a backend in mode blocking-strict could not store "
            "events.",
            registry=registry,
        )

        self._truncated = Counter(
            "understudy_audit_events_truncated_total",
            "Audit events with a value truncated because it exceeds audit.limits.",
            registry=registry,
        )

    def event_truncated(self) -> None:
        """Count one event with a truncated value."""
        self._truncated.inc()

    def events_stored(self, backend: str, count: int) -> None:
        """Count events that the backend has stored."""
        self._stored.labels(backend).inc(count)

    def events_lost(self, backend: str, reason: str, count: int) -> None:
        """Count events that the backend has lost."""
        self._lost.labels(backend, reason).inc(count)

    def backend_failed(self, backend: str, reason: str) -> None:
        """Count one failed attempt."""
        self._failures.labels(backend, reason).inc()

    def watch_queue(self, backend: str, count: Callable[[], int]) -> None:
        """Register the gauge of queued events, evaluated at every scrape.

        The loss counters are exposed from then on, too. A counter that first appears with its first
        loss has not increased for Prometheus, so no alert would fire.
        """
        self._waiting.labels(backend).set_function(count)
        for reason in ("buffer-full", "refused", "shutdown"):
            self._lost.labels(backend, reason)

    def remove_queue(self, backend: str) -> None:
        """Remove the gauge of a backend that is no longer in use."""
        self._waiting.remove(backend)

    def request_rejected(self) -> None:
        """Count a request that was rejected because its event could not be stored."""
        self._rejected.inc()


class AuditPolicyMetrics:
    """Outcomes of reloads of the audit policy."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reads = Counter(
            "understudy_audit_policy_reloads_total",
            "Reloads of the audit policy file, by outcome: used or refused.",
            ("outcome",),
            registry=registry,
        )
        # Exposed from the start, so that the first reload is an increase.
        for outcome in ("used", "refused"):
            self._reads.labels(outcome)

    def audit_policy_read(self, *, used: bool) -> None:
        """Count a reload of the policy file, used or refused."""
        self._reads.labels("used" if used else "refused").inc()
