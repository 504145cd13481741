"""What the benchmark makes of what it has read."""

import os
import subprocess
import sys
import time

import pytest

from bench.measurement import Measurement
from bench.process_cost import cpu_seconds, family, rss_kib
from bench.ratios import Spread


def test_a_process_that_works_uses_cpu_time() -> None:
    before, started = cpu_seconds(os.getpid()), time.process_time()

    while time.process_time() - started < 0.05:
        pass

    assert cpu_seconds(os.getpid()) - before >= 0.05


def test_what_children_use_is_counted_too() -> None:
    command = [sys.executable, "-c", "x = bytearray(50 << 20); input()"]
    alone = rss_kib(os.getpid())

    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.pid in family(os.getpid())
        deadline = time.monotonic() + 20
        while rss_kib(child.pid) < 50 << 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rss_kib(os.getpid()) >= alone + (40 << 10)
        child.communicate(b"\n")


def test_a_spread_is_the_median_and_its_range() -> None:
    assert Spread.over([3.0, None, 1.0, 8.0]) == Spread(3.0, 1.0, 8.0)


def test_without_readings_there_is_no_spread() -> None:
    assert Spread.over([None]) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("cost", 5.0), ("own", 0.0), ("rss_kib", None), ("unheard of", None)],
)
def test_a_figure_is_found_by_its_name(name: str, value: float | None) -> None:
    assert Measurement(cost=5.0, requests=1, extra={"own": 0.0}).figure(name) == value
