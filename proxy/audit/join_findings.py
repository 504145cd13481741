"""What a join has found in all, for people and for Prometheus."""

from collections import Counter
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from proxy.audit.join import LOUD, Flag, Joined


@dataclass(slots=True)
class Findings:
    """Counts the requests of one join."""

    requests: int = 0
    in_both: int = 0
    flagged: int = 0
    loud: int = 0
    by_flag: Counter[Flag] = field(default_factory=Counter)

    def count(self, request: Joined) -> None:
        """Take one request in."""
        self.requests += 1
        self.in_both += request.ours is not None and request.cluster is not None
        self.flagged += bool(request.flags)
        self.loud += not LOUD.isdisjoint(request.flags)
        self.by_flag.update(request.flags)

    def page(self, now: float) -> bytes:
        """Return them as metrics of a join that ended now, in seconds since 1970.

        Each flag is there, found or not: an alert must be able to tell none from unknown.
        """
        registry = CollectorRegistry()
        flagged = Gauge(
            "understudy_audit_join_flagged_events",
            "Requests flagged by the last join, by flag: same-id, not-in-cluster, not-in-ours, "
            "TARGET-DIFFERS or NOT-IMPERSONATED.",
            ["flag"],
            registry=registry,
        )
        for flag in Flag:
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
