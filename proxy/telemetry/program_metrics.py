"""What is known of the program itself."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.telemetry.logs import suppressed_lines


class ProgramMetrics(Collector):
    """Which version runs, and what its log does not say."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self._version = version
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Tell the registry which names are taken."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Return how it is now."""
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
