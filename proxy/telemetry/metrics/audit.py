"""What the audit backends count, on a registry that is passed in; label values are closed sets."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class AuditMetrics:
    """What becomes of audit events: `backend` is log or webhook."""

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
        """Count one event that holds a value only in part."""
        self._truncated.inc()

    def events_stored(self, backend: str, count: int) -> None:
        """Count events that are safe with the backend."""
        self._stored.labels(backend).inc(count)

    def events_lost(self, backend: str, reason: str, count: int) -> None:
        """Count events that the backend will never have."""
        self._lost.labels(backend, reason).inc(count)

    def backend_failed(self, backend: str, reason: str) -> None:
        """Count one attempt that failed."""
        self._failures.labels(backend, reason).inc()

    def watch_waiting(self, backend: str, count: Callable[[], int]) -> None:
        """Show how many events wait, as it is when somebody asks.

        Losses are shown from then on, too: a counter that first appears with its first loss has
        not increased, as Prometheus sees it, and nobody would be told.
        """
        self._waiting.labels(backend).set_function(count)
        for reason in ("buffer-full", "refused", "shutdown"):
            self._lost.labels(backend, reason)

    def remove_queue(self, backend: str) -> None:
        """Show nothing of a backend that is no more."""
        self._waiting.remove(backend)

    def request_rejected(self) -> None:
        """Count a request that was refused."""
        self._rejected.inc()


class AuditPolicyMetrics:
    """Outcomes of reading the audit policy while running."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reads = Counter(
            "understudy_audit_policy_reloads_total",
            "Reloads of the audit policy file, by outcome: used or refused.",
            ("outcome",),
            registry=registry,
        )
        # From the start, so that the first one is an increase.
        for outcome in ("used", "refused"):
            self._reads.labels(outcome)

    def audit_policy_read(self, *, used: bool) -> None:
        """Count a policy file that was read again, used or refused."""
        self._reads.labels("used" if used else "refused").inc()
