"""What the listening side counts, on a registry that is passed in."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class ServingMetrics:
    """Who was turned away, and how the certificates are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._connections = Counter(
            "understudy_connections_turned_away_total",
            "Connections closed before the handshake because there were too many.",
            registry=registry,
        )
        self._requests = Counter(
            "understudy_requests_turned_away_total",
            "Requests answered 429 because too many were in flight, by kind: read or write.",
            ("kind",),
            registry=registry,
        )
        self._reloads = Counter(
            "understudy_certificate_reloads_total",
            "New contents of certificate or key, by outcome: used or refused. A file that stays "
            "unusable counts at every look.",
            ("outcome",),
            registry=registry,
        )
        self._trust = Counter(
            "understudy_client_ca_reloads_total",
            "New contents of the CAs of clients and front proxies, by outcome: used or refused. A "
            "source that stays unusable counts at every look.",
            ("outcome",),
            registry=registry,
        )
        self._expiry = Gauge(
            "understudy_serving_certificate_expiry_seconds",
            "When the certificate shown to clients ends, in seconds since 1970.",
            registry=registry,
        )

    def connections_turned_away(self, count: int) -> None:
        """Count connections that found no place."""
        self._connections.inc(count)

    def request_turned_away(self, kind: str) -> None:
        """Count a request that found no place; `kind` is read or write."""
        self._requests.labels(kind).inc()

    def certificates_read(self, *, used: bool) -> None:
        """Count new contents, used or refused."""
        self._reloads.labels("used" if used else "refused").inc()

    def trust_read(self, *, used: bool) -> None:
        """Count new contents of the CAs, used or refused."""
        self._trust.labels("used" if used else "refused").inc()

    def certificate_expires(self, at: float) -> None:
        """Tell when the certificate in use ends, in seconds since 1970."""
        self._expiry.set(at)
