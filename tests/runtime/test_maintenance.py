"""Maintenance: every second, whatever fails."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from proxy.admin.health import EventLoopHeartbeat
from proxy.concurrency.task_set import TaskSet
from proxy.runtime.maintenance import Maintenance
from proxy.telemetry.metrics.serving import ServingMetrics
from tests.support.event_loops import in_virtual_time


@in_virtual_time
async def test_tasks_run_every_second_and_a_failed_one_prevents_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    clock = asyncio.get_running_loop().time
    registry = CollectorRegistry()
    heartbeat = EventLoopHeartbeat(clock, silence_seconds=5)
    maintenance = Maintenance(heartbeat, ServingMetrics(registry), clock)
    sweeps: list[int] = []
    tasks = TaskSet(lambda _: None)
    tasks.start_background(maintenance.run(lambda sweep: [fail, lambda: sweeps.append(sweep)]))

    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(10.5)

    assert sweeps == list(range(1, 11))
    assert [record.message for record in caplog.records] == ["maintenance failed"] * 10
    assert heartbeat.health_error() is None
    assert registry.get_sample_value("understudy_event_loop_lag_seconds_count") == 10
    await tasks.stop()
    await asyncio.sleep(6)
    assert heartbeat.health_error() is not None
