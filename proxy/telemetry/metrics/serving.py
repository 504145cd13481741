"""Metrics of client connections, requests in flight and serving certificates."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class UnauthenticatedMetrics:
    """Metrics of memory before authentication, evicted connections and stalled responses."""

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
        self._rejected = Counter(
            "understudy_unauthenticated_rejected_total",
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

    def unauthenticated_rejected(self, reason: str) -> None:
        """Count one rejected connection; `reason` is address or total."""
        self._rejected.labels(reason).inc()

    def watch_budget(self, held_bytes: Callable[[], int], limit_bytes: Callable[[], int]) -> None:
        """Register the gauges of held memory and its limit, evaluated at every scrape."""
        self._held.set_function(held_bytes)
        self._limit.set_function(limit_bytes)

    def watch_connections(
        self,
        unauthenticated: Callable[[], int],
        evictions: Callable[[], Mapping[str, int]],
        stalled: Callable[[], int],
    ) -> None:
        """Register the metrics of a listener's unauthenticated and closed connections."""
        self._connections.set_function(unauthenticated)
        self._counts.evictions, self._counts.stalled = evictions, stalled


class _ClosedConnections(Collector):
    """Counters that the listener keeps as plain numbers."""

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


# 1 ms doubling up to 16 s.
_LAG_BUCKETS = tuple(0.001 * 2**power for power in range(15))


class ServingMetrics:
    """Metrics of rejected clients, connections, certificates and CAs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._connections = Counter(
            "understudy_connections_rejected_total",
            "Connections closed before the TLS handshake because the connection limit was reached.",
            registry=registry,
        )
        self._requests = Counter(
            "understudy_requests_rejected_total",
            "Requests answered 429 because too many were in flight, by kind: read, write, or "
            "caller (too many of one caller).",
            ("kind",),
            registry=registry,
        )
        self._reloads = Counter(
            "understudy_certificate_reloads_total",
            "Reloads of the serving certificate or key, by outcome: used or refused. An unusable "
            "file is counted at every check.",
            ("outcome",),
            registry=registry,
        )
        self._trust = Counter(
            "understudy_client_ca_reloads_total",
            "Reloads of the client and front-proxy CAs, by outcome: used or refused. An unusable "
            "source is counted at every check.",
            ("outcome",),
            registry=registry,
        )
        self._expiry = Gauge(
            "understudy_serving_certificate_expiry_seconds",
            "Expiry of the serving certificate in seconds since 1970.",
            registry=registry,
        )

        self._trust_expiry = Gauge(
            "understudy_client_ca_expiry_seconds",
            "Earliest expiry among the trusted CA certificates in seconds since 1970, by ca: "
            "clients or front-proxies; 0 without any.",
            ("ca",),
            registry=registry,
        )
        self._admin_reloads = Counter(
            "understudy_admin_certificate_reloads_total",
            "Reloads of the admin port's certificate or key, by outcome: used or refused.",
            ("outcome",),
            registry=registry,
        )
        self._admin_expiry = Gauge(
            "understudy_admin_certificate_expiry_seconds",
            "Expiry of the admin port's certificate in seconds since 1970; 0 without one.",
            registry=registry,
        )
        self._admin_closed = Counter(
            "understudy_admin_connections_closed_total",
            "Admin port connections closed by a limit, by reason: full (a new connection needed "
            "the slot), timeout or size.",
            ("reason",),
            registry=registry,
        )
        for reason in ("full", "timeout", "size"):
            self._admin_closed.labels(reason)
        self._connection_limit = Gauge(
            "understudy_client_connections_limit",
            "Maximum number of client connections: serving.limits.connections, or fewer if the "
            "open file limit is too low.",
            registry=registry,
        )
        self._open_connections = Gauge(
            "understudy_client_connections",
            "Open client connections, including those in the TLS handshake.",
            registry=registry,
        )
        self._in_flight = Gauge(
            "understudy_requests_in_flight",
            "Requests in flight, by kind: read, write (both limited), stream (a watch or followed "
            "log whose response has started) or tunnel.",
            ("kind",),
            registry=registry,
        )
        self._lag = Histogram(
            "understudy_event_loop_lag_seconds",
            "Delay between the requested and the actual wake-up of the event loop, measured once "
            "per second.",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )
        self._handshakes = _HandshakeFailures()
        registry.register(self._handshakes)
        self._unauthenticated = UnauthenticatedMetrics(registry)

    @property
    def unauthenticated(self) -> UnauthenticatedMetrics:
        """The metrics of unauthenticated callers and of stalled responses."""
        return self._unauthenticated

    def watch_clients(
        self, connections: Callable[[], int], in_flight: Mapping[str, Callable[[], int]]
    ) -> None:
        """Register the gauges of connections and of requests in flight by kind."""
        self._open_connections.set_function(connections)
        for kind, count in in_flight.items():
            self._in_flight.labels(kind).set_function(count)

    def watch_handshakes(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Register the counts of failed handshakes, by reasons from a closed set."""
        self._handshakes.counts = counts

    def loop_lag_observed(self, seconds: float) -> None:
        """Observe by how much one wake-up of the event loop was late."""
        self._lag.observe(max(seconds, 0.0))

    def trust_expires(self, *, clients: float, front_proxies: float) -> None:
        """Record the earliest expiry of the CAs, in seconds since 1970."""
        self._trust_expiry.labels("clients").set(clients)
        self._trust_expiry.labels("front-proxies").set(front_proxies)

    def admin_certificate_read(self, *, used: bool) -> None:
        """Count a reload of the admin port's certificate, used or refused."""
        self._admin_reloads.labels("used" if used else "refused").inc()

    def admin_certificate_expires(self, at: float) -> None:
        """Record when the admin port's certificate expires, in seconds since 1970."""
        self._admin_expiry.set(at)

    def admin_connection_closed(self, reason: str) -> None:
        """Count a connection of the admin port that was closed by a limit."""
        self._admin_closed.labels(reason).inc()

    def connections_limited(self, connections: int) -> None:
        """Record the maximum number of client connections."""
        self._connection_limit.set(connections)

    def connections_rejected(self, count: int) -> None:
        """Count connections above the connection limit."""
        self._connections.inc(count)

    def request_rejected(self, kind: str) -> None:
        """Count a request above a limit; `kind` is read, write or caller."""
        self._requests.labels(kind).inc()

    def certificates_reloaded(self, *, used: bool) -> None:
        """Count a reload of the serving certificate, used or refused."""
        self._reloads.labels("used" if used else "refused").inc()

    def trust_read(self, *, used: bool) -> None:
        """Count a reload of the CAs, used or refused."""
        self._trust.labels("used" if used else "refused").inc()

    def certificate_expires(self, at: float) -> None:
        """Record when the certificate in use expires, in seconds since 1970."""
        self._expiry.set(at)


class _HandshakeFailures(Collector):
    def __init__(self) -> None:
        self.counts: Callable[[], Mapping[str, int]] = dict

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "understudy_handshake_failures_total",
            "Failed TLS handshakes of clients, by reason.",
            labels=("reason",),
        )
        for reason, count in self.counts().items():
            family.add_metric((reason,), count)
        return [family]
