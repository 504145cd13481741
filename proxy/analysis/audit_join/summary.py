"""Counts of one join, and whether its logs are complete enough for a conclusion."""

from collections import Counter
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from proxy.analysis.audit_join.joiner import (
    SEVERE_FLAGS,
    AuditLogJoiner,
    JoinedRequest,
    JoinFlag,
    is_success,
)


@dataclass(slots=True)
class JoinSummary:
    """Counts the requests of one join."""

    requests: int = 0
    in_both: int = 0
    flagged: int = 0
    severe: int = 0
    succeeded: int = 0
    """Requests that succeeded by the proxy's log, so the cluster's log should have them."""
    by_flag: Counter[JoinFlag] = field(default_factory=Counter)

    def count(self, request: JoinedRequest) -> None:
        """Count one request."""
        self.requests += 1
        self.in_both += request.proxy_record is not None and request.cluster_record is not None
        self.flagged += bool(request.flags)
        self.succeeded += request.proxy_record is not None and is_success(request.proxy_record)
        self.severe += not SEVERE_FLAGS.isdisjoint(request.flags)
        self.by_flag.update(request.flags)

    def metrics_text(self, now: float) -> bytes:
        """Return the counts as metrics of a join that ended at `now`, in seconds since 1970.

        Each flag has a series, found or not: an alert must distinguish none from unknown.
        """
        registry = CollectorRegistry()
        flagged = Gauge(
            "understudy_audit_join_flagged_events",
            "Requests flagged by the last join, by flag: same-id, not-in-cluster, not-in-ours, "
            "PROXY-PERMISSION-MISSING, TARGET-DIFFERS or NOT-IMPERSONATED.",
            ["flag"],
            registry=registry,
        )
        for flag in JoinFlag:
            flagged.labels(flag.value).set(self.by_flag[flag])
        Gauge(
            "understudy_audit_join_requests",
            "Requests that the last join found in either log.",
            registry=registry,
        ).set(self.requests)
        Gauge(
            "understudy_audit_join_last_run_timestamp_seconds",
            "When the last completed join ended, in seconds since 1970.",
            registry=registry,
        ).set(now)
        return generate_latest(registry)


def inconclusive_reason(joiner: AuditLogJoiner, summary: JoinSummary) -> str:
    """Return why missing flags mean nothing after this join, or an empty text.

    Logs of different periods or clusters, or a wrong user name, have nothing to flag.
    """
    if not joiner.proxy_events:
        return "the proxy's logs contain no audit event"
    if not joiner.cluster_events:
        return "the cluster's logs contain no audit event"
    if joiner.proxy_user is not None and not joiner.is_proxy_user_seen:
        return (
            f"{joiner.proxy_user} made no request in the cluster's logs: check --proxy-user, and "
            "whether the cluster's audit policy records this user"
        )
    if summary.succeeded and not summary.in_both:
        return (
            f"{summary.succeeded} requests succeeded through the proxy, and none of them is in the "
            "cluster's logs: check that all logs cover the same period and cluster"
        )
    if joiner.proxy_user is None:
        return "the proxy's own user name is unknown: use --proxy-user"
    return ""
