"""Counters and histograms for what happens at every request.

The library's own take a lock for each count, and find a bucket by walking through all of them.
These are only ever used from the event loop's thread, which is also where they are collected.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString  # what the library itself writes

Labels = tuple[str, ...]


def bucket_names(bounds: Sequence[float]) -> list[str]:
    """Return what buckets with these upper bounds are called, and the one for all the rest."""
    return [floatToGoString(bound) for bound in (*bounds, float("inf"))]  # type: ignore[no-untyped-call]


class FastCounter(Collector):
    """A counter, by label values from a closed set."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        # Who counts at every request adds to it without a function between.
        self.counts: defaultdict[Labels, float] = defaultdict(float)
        registry.register(self)

    def add(self, labels: Labels, count: float = 1.0) -> None:
        """Count one, or several of a kind."""
        self.counts[labels] += count

    def describe(self) -> Iterable[Metric]:
        """Tell the registry which names are taken."""
        return [CounterMetricFamily(self._name, self._text, labels=self._labels)]

    def collect(self) -> Iterable[Metric]:
        """Return what was counted so far."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self.counts.items():
            family.add_metric(labels, count)
        return [family]


class HistogramCount(Collector):
    """A counter of what a histogram has seen, by the same labels: counted once for both."""

    def __init__(self, histogram: "FastHistogram", name: str, text: str) -> None:
        self._histogram, self._name, self._text = histogram, name, text
        histogram.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Tell the registry which names are taken."""
        return [CounterMetricFamily(self._name, self._text, labels=self._histogram.labels)]

    def collect(self) -> Iterable[Metric]:
        """Return what was counted so far."""
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
        """Count one that took this long."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[labels] += seconds

    def counts(self) -> Iterable[tuple[Labels, int]]:
        """Return how many were seen, by label values."""
        return [(labels, sum(counts)) for labels, counts in self._counts.items()]

    def describe(self) -> Iterable[Metric]:
        """Tell the registry which names are taken."""
        return [HistogramMetricFamily(self._name, self._text, labels=self.labels)]

    def collect(self) -> Iterable[Metric]:
        """Return what was counted so far; each bucket holds all that are not longer."""
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
