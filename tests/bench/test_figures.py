"""What the benchmark makes of what it has read."""

import os
import time

import pytest

from bench.cpu_time import cpu_seconds, cpu_seconds_of
from bench.ratios import Ratio, ratio


def test_cpu_time_is_that_of_the_process_and_its_ended_children() -> None:
    stat = b"7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 1100 220 33 4 20 0 1 0 99"

    assert cpu_seconds_of(stat) == pytest.approx(1357 / os.sysconf("SC_CLK_TCK"))


def test_a_process_that_works_uses_cpu_time() -> None:
    before, started = cpu_seconds(os.getpid()), time.process_time()

    while time.process_time() - started < 0.1:
        pass

    assert cpu_seconds(os.getpid()) - before >= 0.05


def test_a_ratio_is_taken_round_by_round() -> None:
    # The second round was slow for both: as means they would compare quite differently.
    assert ratio([10, 100, 30], [20, 100, 20]) == Ratio(1.0, 0.5, 1.5)


def test_rounds_that_do_not_pair_up_are_not_compared() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([1, 2], [1])
