"""Metrics of the process: its version, its config and its suppressed log lines."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.telemetry.logs import suppressed_lines


class ConfigMetrics:
    """The hash of the config file in force, and the outcomes of reloads."""

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

    def config_rejected(self, outcome: str) -> None:
        """Count a reload that was not applied; `outcome` is refused or restart."""
        self._reloads.labels(outcome).inc()

    def config_applied(self) -> None:
        """Count a reload that was applied."""
        self._reloads.labels("used").inc()

    def set_active_config(self, digest: str, at: float) -> None:
        """Record which file is in force, and since when in seconds since 1970."""
        # At most one series: a new label value with every reload would be a leak.
        self._active.clear()
        self._active.labels(digest).set(1)
        self._last_success.set(at)


class BuildInfoMetrics(Collector):
    """The running version, and the number of suppressed log lines."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self._version = version
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the metric names for the registry."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        build = GaugeMetricFamily(
            "understudy_build_info",
            "Always 1; the label is the running version.",
            labels=("version",),
        )
        build.add_metric((self._version,), 1)
        suppressed = CounterMetricFamily(
            "understudy_log_lines_suppressed_total",
            "Warnings and errors not written to the log because they repeat earlier ones.",
        )
        suppressed.add_metric((), suppressed_lines())
        return [build, suppressed]
