"""Metrics of upstream connections and of the proxy's own identities."""

from collections import deque
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

_IDENTITY = ("identity",)
_MAX_POOLS = 8


class UpstreamMetrics:
    """Metrics of credentials and permissions; `identity` is reviewer, forwarder or shared."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reloads = Counter(
            "understudy_proxy_credential_reloads_total",
            "Reloads of the proxy's own credential, by outcome: used or refused. An unusable "
            "credential is counted at every check.",
            (*_IDENTITY, "outcome"),
            registry=registry,
        )
        self._expiry = Gauge(
            "understudy_proxy_credential_expiry_seconds",
            "Expiry of the proxy's own credential in seconds since 1970; 0 if unknown.",
            _IDENTITY,
            registry=registry,
        )
        self._permissions = Gauge(
            "understudy_proxy_permissions",
            "Permissions of the proxy's own identity that are missing or excessive, by finding.",
            (*_IDENTITY, "finding"),
            registry=registry,
        )
        self._denials = Counter(
            "understudy_proxy_permission_denials_total",
            "Requests that failed because the proxy's own identity lacks a permission.",
            registry=registry,
        )
        self._canary = Gauge(
            "understudy_canary_allowed",
            "1 if the API server allowed an unknown user an unknown verb, else 0.",
            registry=registry,
        )
        self._connections = Gauge(
            "understudy_upstream_connections",
            "Connections that forward requests to the API server, by state: idle or busy.",
            ("state",),
            registry=registry,
        )
        self._opened = Counter(
            "understudy_upstream_connections_opened_total",
            "Connections opened to forward requests to the API server.",
            registry=registry,
        )
        self._failures = Counter(
            "understudy_upstream_connect_failures_total",
            "Upstream connections that could not be opened, by reason: timeout, tls or refused "
            "(any other error).",
            ("reason",),
            registry=registry,
        )
        self._reachable = Gauge(
            "understudy_upstream_reachable",
            "1 if the API server answers the proxy's reviews, else 0.",
            registry=registry,
        )
        for reason in ("timeout", "tls", "refused"):
            self._failures.labels(reason)

        # A replaced pool stays in use until its last exchange ends.
        self._pools: deque[tuple[Callable[[], int], Callable[[], int]]] = deque(maxlen=_MAX_POOLS)
        self._connections.labels("idle").set_function(
            lambda: sum(idle() for idle, _ in self._pools)
        )
        self._connections.labels("busy").set_function(
            lambda: sum(busy() for _, busy in self._pools)
        )

    def watch_connections(self, idle: Callable[[], int], busy: Callable[[], int]) -> None:
        """Include a pool in the gauges, which are evaluated at every scrape."""
        self._pools.append((idle, busy))

    def upstream_connected(self) -> None:
        """Count an opened connection."""
        self._opened.inc()

    def upstream_connect_failed(self, reason: str) -> None:
        """Count a connection that could not be opened; `reason` is timeout, tls or refused."""
        self._failures.labels(reason).inc()

    def set_upstream_reachable(self, *, reachable: bool) -> None:
        """Record whether the API server answers."""
        self._reachable.set(int(reachable))

    def credential_read(self, role: str, *, used: bool) -> None:
        """Count a reload of a credential, used or refused."""
        self._reloads.labels(role, "used" if used else "refused").inc()

    def credential_expires(self, role: str, at: float) -> None:
        """Record when the credential in use expires, in seconds since 1970."""
        self._expiry.labels(role).set(at)

    def remove_identity(self, role: str) -> None:
        """Remove the gauges of an identity that is no longer in use; its counters stay."""
        self._expiry.remove(role)
        for finding in ("missing", "excessive"):
            self._permissions.remove(role, finding)

    def permissions_checked(self, role: str, *, missing: int, excessive: int) -> None:
        """Record how many permissions are missing or excessive."""
        self._permissions.labels(role, "missing").set(missing)
        self._permissions.labels(role, "excessive").set(excessive)

    def proxy_permission_missing(self) -> None:
        """Count a request that failed because the proxy lacks a permission."""
        self._denials.inc()

    def canary_completed(self, *, allowed: bool) -> None:
        """Record whether the API server allowed an unknown user an unknown verb."""
        self._canary.set(int(allowed))
