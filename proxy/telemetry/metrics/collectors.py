"""Counters and histograms for values that change with every request.

Those of the library take a lock for each increment, and search buckets linearly. These are used and
collected in the event loop's thread only.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString  # the library's own format

Labels = tuple[str, ...]


def bucket_names(bounds: Sequence[float]) -> list[str]:
    """Return the names of buckets with these upper bounds, and of the last bucket."""
    return [floatToGoString(bound) for bound in (*bounds, float("inf"))]  # type: ignore[no-untyped-call]


class FastCounter(Collector):
    """A counter, by label values from a closed set."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        # Public, so that a hot path can increment without a function call.
        self.counts: defaultdict[Labels, float] = defaultdict(float)
        registry.register(self)

    def add(self, labels: Labels, count: float = 1.0) -> None:
        """Add to the counter of these labels."""
        self.counts[labels] += count

    def describe(self) -> Iterable[Metric]:
        """Return the metric names for the registry."""
        return [CounterMetricFamily(self._name, self._text, labels=self._labels)]

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self.counts.items():
            family.add_metric(labels, count)
        return [family]


class HistogramCount(Collector):
    """A counter of a histogram's observations, by the same labels, without a second increment."""

    def __init__(self, histogram: "FastHistogram", name: str, text: str) -> None:
        self._histogram, self._name, self._text = histogram, name, text
        histogram.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the metric names for the registry."""
        return [CounterMetricFamily(self._name, self._text, labels=self._histogram.labels)]

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        family = CounterMetricFamily(self._name, self._text, labels=self._histogram.labels)
        for labels, count in self._histogram.counts():
            family.add_metric(labels, count)
        return [family]


class FastHistogram(Collector):
    """A histogram of seconds, by label values from a closed set."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._name, self._text, self.labels = name, text, labels
        self.registry = registry
        self._bounds = tuple(buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        registry.register(self)

    def add(self, labels: Labels, seconds: float) -> None:
        """Observe a duration."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[labels] += seconds

    def counts(self) -> Iterable[tuple[Labels, int]]:
        """Return the number of observations by label values."""
        return [(labels, sum(counts)) for labels, counts in self._counts.items()]

    def describe(self) -> Iterable[Metric]:
        """Return the metric names for the registry."""
        return [HistogramMetricFamily(self._name, self._text, labels=self.labels)]

    def collect(self) -> Iterable[Metric]:
        """Return the current values; buckets are cumulative."""
        family = HistogramMetricFamily(self._name, self._text, labels=self.labels)
        names = bucket_names(self._bounds)
        for labels, counts in self._counts.items():
            buckets: list[tuple[str, float]] = []
            total = 0
            for name, count in zip(names, counts, strict=True):
                total += count
                buckets.append((name, total))
            family.add_metric(labels, buckets, sum_value=self._sums[labels])
        return [family]
