"""What is known of our own identities at the API server, on a registry that is passed in."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

_IDENTITY = ("identity",)


class UpstreamMetrics:
    """How our credentials and rights are; `identity` is reviewer, forwarder or shared."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reloads = Counter(
            "understudy_own_credential_reloads_total",
            "New credentials of our own, by outcome: used or refused. One that stays unusable "
            "counts at every look.",
            (*_IDENTITY, "outcome"),
            registry=registry,
        )
        self._expiry = Gauge(
            "understudy_own_credential_expiry_seconds",
            "When our own credential ends, in seconds since 1970; 0 if it does not tell.",
            _IDENTITY,
            registry=registry,
        )
        self._rights = Gauge(
            "understudy_own_rights",
            "Rights of our own that are missing, or that we had better not have.",
            (*_IDENTITY, "finding"),
            registry=registry,
        )
        self._denials = Counter(
            "understudy_own_rights_missing_total",
            "Requests that failed because our own identity may not take theirs.",
            registry=registry,
        )
        self._canary = Gauge(
            "understudy_canary_allowed",
            "1 if the API server allowed a made-up user a made-up verb, else 0.",
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
            "Connections to forward requests that could not be opened, by reason: timeout, tls or "
            "refused (anything else).",
            ("reason",),
            registry=registry,
        )
        self._reachable = Gauge(
            "understudy_upstream_reachable",
            "1 if the API server answers our reviews, else 0.",
            registry=registry,
        )
        for reason in ("timeout", "tls", "refused"):
            self._failures.labels(reason)

    def watch_connections(self, *, idle: Callable[[], int], busy: Callable[[], int]) -> None:
        """Show how many connections there are, as it is when somebody asks."""
        self._connections.labels("idle").set_function(idle)
        self._connections.labels("busy").set_function(busy)

    def upstream_connected(self) -> None:
        """Count a connection that was opened."""
        self._opened.inc()

    def upstream_not_connected(self, reason: str) -> None:
        """Count one that could not be: timeout, tls or refused."""
        self._failures.labels(reason).inc()

    def upstream_answers(self, *, reachable: bool) -> None:
        """Tell whether the API server answers."""
        self._reachable.set(int(reachable))

    def credential_read(self, role: str, *, used: bool) -> None:
        """Count a new credential, used or refused."""
        self._reloads.labels(role, "used" if used else "refused").inc()

    def credential_expires(self, role: str, at: float) -> None:
        """Tell when the credential in use ends, in seconds since 1970."""
        self._expiry.labels(role).set(at)

    def rights_checked(self, role: str, *, missing: int, excessive: int) -> None:
        """Tell how many rights are missing, and how many are too many."""
        self._rights.labels(role, "missing").set(missing)
        self._rights.labels(role, "excessive").set(excessive)

    def own_right_missing(self) -> None:
        """Count a request that failed because we may not do something."""
        self._denials.inc()

    def canary_answered(self, *, allowed: bool) -> None:
        """Tell whether what nobody may do is allowed."""
        self._canary.set(int(allowed))
