"""Counts how often the audit policy was read again."""

from prometheus_client import CollectorRegistry, Counter


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
