"""Tallies are exposed exactly as the library exposes its own counters and histograms."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

import proxy.telemetry.metrics.impersonation  # noqa: F401 - without its _created series, as everything of ours
from proxy.telemetry.metrics.collectors import FastCounter, FastHistogram

BOUNDS = (0.001, 0.5, 1.0)
SECONDS = (0.0, 0.001, 0.0011, 0.5, 0.7, 1.0, 99.0)


def test_a_counter_is_exposed_like_the_library_s() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = FastCounter("things_total", "Things.", ("kind", "way"), registry=ours)
    counter = Counter("things_total", "Things.", ("kind", "way"), registry=theirs)

    for labels in (("a", "x"), ("b", ""), ("a", "x")):
        tally.add(labels)
        counter.labels(*labels).inc()

    assert generate_latest(ours) == generate_latest(theirs)


def test_a_histogram_is_exposed_like_the_library_s() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = FastHistogram("took_seconds", "Took.", ("kind",), buckets=BOUNDS, registry=ours)
    histogram = Histogram("took_seconds", "Took.", ("kind",), buckets=BOUNDS, registry=theirs)

    for seconds in SECONDS:
        tally.add(("a",), seconds)
        histogram.labels("a").observe(seconds)

    assert generate_latest(ours) == generate_latest(theirs)


def test_nothing_counted_is_exposed_like_the_library_s() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    FastCounter("things_total", "Things.", ("kind",), registry=ours)
    Counter("things_total", "Things.", ("kind",), registry=theirs)

    assert generate_latest(ours) == generate_latest(theirs)
