"""What is known of our own identities at the API server, on a registry that is passed in."""

from collections import deque
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge

_IDENTITY = ("identity",)
_MOST_POOLS = 8


class Connections(Protocol):
    """Connections to the API server."""

    @property
    def idle(self) -> int:
        """How many connections wait for a request."""
        ...

    @property
    def busy(self) -> int:
        """How many connections carry one."""
        ...


class UpstreamMetrics:
    """How our credentials and rights are; `identity` is reviewer, forwarder or shared."""

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
        self._rights = Gauge(
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

        # A pool that was replaced serves on until its last exchange ends.
        self._pools: deque[Connections] = deque(maxlen=_MOST_POOLS)
        self._connections.labels("idle").set_function(lambda: sum(one.idle for one in self._pools))
        self._connections.labels("busy").set_function(lambda: sum(one.busy for one in self._pools))

    def watch_connections(self, pool: Connections) -> None:
        """Show how many connections this pool has, too, as it is when somebody asks."""
        self._pools.append(pool)

    def upstream_connected(self) -> None:
        """Count a connection that was opened."""
        self._opened.inc()

    def upstream_not_connected(self, reason: str) -> None:
        """Count one that could not be: timeout, tls or refused."""
        self._failures.labels(reason).inc()

    def set_upstream_reachable(self, *, reachable: bool) -> None:
        """Tell whether the API server answers."""
        self._reachable.set(int(reachable))

    def credential_read(self, role: str, *, used: bool) -> None:
        """Count a new credential, used or refused."""
        self._reloads.labels(role, "used" if used else "refused").inc()

    def credential_expires(self, role: str, at: float) -> None:
        """Tell when the credential in use ends, in seconds since 1970."""
        self._expiry.labels(role).set(at)

    def remove(self, role: str) -> None:
        """Show no state of an identity that is ours no more; what was counted stays counted."""
        self._expiry.remove(role)
        for finding in ("missing", "excessive"):
            self._rights.remove(role, finding)

    def permissions_checked(self, role: str, *, missing: int, excessive: int) -> None:
        """Tell how many rights are missing, and how many are too many."""
        self._rights.labels(role, "missing").set(missing)
        self._rights.labels(role, "excessive").set(excessive)

    def proxy_permission_missing(self) -> None:
        """Count a request that failed because we may not do something."""
        self._denials.inc()

    def canary_completed(self, *, allowed: bool) -> None:
        """Tell whether what nobody may do is allowed."""
        self._canary.set(int(allowed))
