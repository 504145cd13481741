"""What is counted of callers that are not authenticated yet, and of clients that stall."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class UnauthenticatedMetrics:
    """Memory held before authentication, connections closed for newcomers, stalled responses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._held = Gauge(
            "understudy_unauthenticated_held_bytes",
            "Memory held for unauthenticated callers.",
            registry=registry,
        )
        self._limit = Gauge(
            "understudy_unauthenticated_limit_bytes",
            "Limit of the memory held for unauthenticated callers.",
            registry=registry,
        )
        self._refusals = Counter(
            "understudy_unauthenticated_refusals_total",
            "Connections rejected because they held the most memory before authentication, by "
            "reason: address (per-address share) or total.",
            ("reason",),
            registry=registry,
        )
        self._connections = Gauge(
            "understudy_unauthenticated_connections",
            "Connections without an authenticated request so far.",
            registry=registry,
        )
        self._counts = _ClosedConnections()
        registry.register(self._counts)

    def unauthenticated_refused(self, reason: str) -> None:
        """Count one refused connection; `reason` is address or total."""
        self._refusals.labels(reason).inc()

    def watch_budget(self, held_bytes: Callable[[], int], limit_bytes: Callable[[], int]) -> None:
        """Show what is held, and how much may be, as it is when somebody asks."""
        self._held.set_function(held_bytes)
        self._limit.set_function(limit_bytes)

    def watch_connections(
        self,
        unauthenticated: Callable[[], int],
        evictions: Callable[[], Mapping[str, int]],
        stalled: Callable[[], int],
    ) -> None:
        """Show the connections of a listener, and how many it has closed before their time."""
        self._connections.set_function(unauthenticated)
        self._counts.evictions, self._counts.stalled = evictions, stalled


class _ClosedConnections(Collector):
    """Counts that the listener keeps as plain numbers."""

    def __init__(self) -> None:
        self.evictions: Callable[[], Mapping[str, int]] = dict
        self.stalled: Callable[[], int] = lambda: 0

    def collect(self) -> Iterable[Metric]:
        evictions = CounterMetricFamily(
            "understudy_connections_evicted_total",
            "Unauthenticated connections closed to accept a new connection, by reason: address "
            "(per-address limit) or total.",
            labels=("reason",),
        )
        for reason, count in self.evictions().items():
            evictions.add_metric((reason,), count)
        stalled = CounterMetricFamily(
            "understudy_stalled_responses_total",
            "Responses aborted because the client read too little of them in time.",
        )
        stalled.add_metric((), self.stalled())
        return [evictions, stalled]
