"""Which config file is in force, and what became of new ones, on a registry that is passed in."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class ConfigMetrics:
    """The active file's hash, and the outcomes of reading it again."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reloads = Counter(
            "understudy_config_reloads_total",
            "Reloads of the config file or the audit policy, by outcome: used, refused or restart "
            "(requires a new process). An unusable file is counted at every check.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("used", "refused", "restart"):
            self._reloads.labels(outcome)
        self._last_success = Gauge(
            "understudy_config_last_success_timestamp_seconds",
            "When the config in force was loaded, in seconds since 1970.",
            registry=registry,
        )
        self._active = Gauge(
            "understudy_config_info",
            "Always 1; `hash` is the SHA-256 of the config file in force.",
            ("hash",),
            registry=registry,
        )

    def config_refused(self, outcome: str) -> None:
        """Count contents that were not used; `outcome` is refused or restart."""
        self._reloads.labels(outcome).inc()

    def config_used(self) -> None:
        """Count contents that were used."""
        self._reloads.labels("used").inc()

    def config_is(self, digest: str, at: float) -> None:
        """Tell which file is in force, and since when in seconds since 1970."""
        # Only ever one: a label that grew with every reload would be a leak.
        self._active.clear()
        self._active.labels(digest).set(1)
        self._last_success.set(at)
