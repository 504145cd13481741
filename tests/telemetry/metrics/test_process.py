"""Metrics of the process: config reloads, the config in force, version and suppressed lines."""

import logging

import pytest
from prometheus_client import CollectorRegistry

from proxy.telemetry.logs import RepeatFilter
from proxy.telemetry.metrics.process import BuildInfoMetrics, ConfigMetrics
from tests.support.clock import FakeClock
from tests.support.restored_logging import restored_logging

RELOADS = "understudy_config_reloads_total"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def reloads(registry: CollectorRegistry) -> list[float | None]:
    return [
        registry.get_sample_value(RELOADS, {"outcome": outcome})
        for outcome in ("used", "refused", "restart")
    ]


def test_every_outcome_of_a_reload_has_a_series_from_the_start(registry: CollectorRegistry) -> None:
    ConfigMetrics(registry)

    assert reloads(registry) == [0, 0, 0]


def test_reload_is_counted_by_its_outcome(registry: CollectorRegistry) -> None:
    metrics = ConfigMetrics(registry)

    metrics.config_applied()
    for outcome in ("refused", "restart", "refused", "refused", "restart"):
        metrics.config_rejected(outcome)

    assert reloads(registry) == [1, 3, 2]


def test_only_the_config_in_force_has_a_series(registry: CollectorRegistry) -> None:
    metrics = ConfigMetrics(registry)

    metrics.set_active_config("old", 100.0)
    metrics.set_active_config("new", 200.0)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("understudy_config_info", hash="new") == 1
    assert value("understudy_config_info", hash="old") is None
    assert value("understudy_config_last_success_timestamp_seconds") == 200


def test_rejected_reload_changes_nothing_about_the_config_in_force(
    registry: CollectorRegistry,
) -> None:
    metrics = ConfigMetrics(registry)
    metrics.set_active_config("old", 100.0)

    metrics.config_rejected("refused")

    assert registry.get_sample_value("understudy_config_info", {"hash": "old"}) == 1
    assert registry.get_sample_value("understudy_config_last_success_timestamp_seconds") == 100


def test_build_info_is_one_for_the_running_version_only(registry: CollectorRegistry) -> None:
    BuildInfoMetrics(registry, version="1.2.3")

    assert registry.get_sample_value("understudy_build_info", {"version": "1.2.3"}) == 1
    assert registry.get_sample_value("understudy_build_info", {"version": "1.2.4"}) is None


def test_suppressed_lines_are_read_at_every_scrape(registry: CollectorRegistry) -> None:
    with restored_logging():
        handler = logging.NullHandler()
        logging.getLogger().handlers[:] = [handler]
        BuildInfoMetrics(registry, version="1")

        def suppressed() -> float | None:
            return registry.get_sample_value("understudy_log_lines_suppressed_total")

        assert suppressed() == 0
        repeats = RepeatFilter(1, FakeClock())
        handler.addFilter(repeats)
        record = logging.LogRecord("a", logging.ERROR, __file__, 1, "failed", None, None)
        written = [repeats.filter(record) for _ in range(3)]

        assert written == [True, False, False]
        assert suppressed() == 2


def test_second_collector_in_one_registry_is_an_error(registry: CollectorRegistry) -> None:
    BuildInfoMetrics(registry, version="1")

    with pytest.raises(ValueError, match="understudy_build_info"):
        BuildInfoMetrics(registry, version="2")
