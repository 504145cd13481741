"""Audit metrics on a registry of their own, whose values tests read."""

from collections import Counter

from prometheus_client import CollectorRegistry

from proxy.audit.backends.buffer import BackendMode, BufferLimits
from proxy.telemetry.metrics.audit import AuditMetrics


class Counts(AuditMetrics):
    """The audit metrics, with the sums over all backends."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        super().__init__(self._registry)

    @property
    def stored(self) -> int:
        """Return the number of stored events."""
        return sum(self._by_reason("understudy_audit_events_stored_total").values())

    @property
    def lost(self) -> Counter[str]:
        """Return the number of lost events by reason."""
        return self._by_reason("understudy_audit_events_lost_total")

    @property
    def failures(self) -> Counter[str]:
        """Return the number of failed attempts by reason."""
        return self._by_reason("understudy_audit_backend_failures_total")

    def _by_reason(self, name: str) -> Counter[str]:
        counted: Counter[str] = Counter()
        for family in self._registry.collect():
            for sample in family.samples:
                if sample.name == name and sample.value:
                    counted[sample.labels.get("reason", "")] += int(sample.value)
        return counted


def limits(
    mode: BackendMode = BackendMode.BATCH, *, events: int = 1000, size: int = 1_000_000
) -> BufferLimits:
    return BufferLimits(mode, events, size)
