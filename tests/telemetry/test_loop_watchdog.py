"""A blocked event loop is counted, and the log says where."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from proxy.telemetry.logs import FIELDS
from proxy.telemetry.loop_watchdog import BlockedLoopMetrics, LoopWatchdog
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually

THRESHOLD_SECONDS = 0.25
# A regular expression that holds the interpreter lock for about a second.
SLOW_PATTERN, SLOW_TEXT = re.compile(r"(a|aa)+$"), "a" * 33 + "b"
CODE = """
import time

def spin(seconds):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass

def match(pattern, text):
    return pattern.match(text)
"""


class Blocked:
    """What was counted."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.counter = BlockedLoopMetrics(self._registry)

    @property
    def count(self) -> float:
        return self._value("understudy_event_loop_blocked_total")

    @property
    def seconds(self) -> float:
        return self._value("understudy_event_loop_blocked_seconds_total")

    async def times(self, count: int) -> None:
        """Wait until so many were counted."""
        await eventually(lambda: self.count >= count)

    def _value(self, name: str) -> float:
        return self._registry.get_sample_value(name) or 0.0


@pytest.fixture
def ours() -> dict[str, Callable[..., object]]:
    """Functions of a module that the watchdog takes for one of ours."""
    module: dict[str, Callable[..., object]] = {"__name__": "proxy.made_up"}  # type: ignore[dict-item]
    exec(compile(CODE, "made_up.py", "exec"), module)
    return module


@pytest.fixture
def blocked() -> Blocked:
    return Blocked()


@pytest.fixture
async def watchdog(blocked: Blocked) -> LoopWatchdog:
    return LoopWatchdog(blocked.counter, time.monotonic)


@pytest.fixture
async def watching(watchdog: LoopWatchdog) -> LoopWatchdog:
    watchdog.watch(THRESHOLD_SECONDS)
    await asyncio.sleep(0.2)
    return watchdog


@pytest.fixture(autouse=True)
def stopped(watchdog: LoopWatchdog) -> Iterator[None]:
    yield
    watchdog.stop()


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [
        getattr(record, FIELDS) for record in caplog.records if record.msg == "event loop blocked"
    ]


async def test_a_blocked_loop_is_counted_and_located(
    watching: LoopWatchdog,
    blocked: Blocked,
    ours: dict[str, Callable[..., object]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours["spin"](0.6)
    await blocked.times(1)

    assert (blocked.count, blocked.seconds > 0.5) == (1, True)
    (line,) = told(caplog)
    assert line["seconds"] == round(blocked.seconds, 3)
    assert re.fullmatch(r"proxy\.made_up:\d+ spin", str(line["location"]).partition(" < ")[0])
    assert caplog.records[-1].levelno == logging.WARNING


async def test_so_is_one_that_holds_the_interpreter_lock(
    watching: LoopWatchdog,
    blocked: Blocked,
    ours: dict[str, Callable[..., object]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours["match"](SLOW_PATTERN, SLOW_TEXT)
    await blocked.times(1)

    assert re.match(r"proxy\.made_up:\d+ match", str(told(caplog)[0]["location"]))


async def test_only_what_is_longer_than_the_threshold_is_counted(blocked: Blocked) -> None:
    # By a clock of the test, so that a busy machine is not late.
    clock = FakeClock()
    watchdog = LoopWatchdog(blocked.counter, clock)
    watchdog.watch(THRESHOLD_SECONDS)
    await asyncio.sleep(0.2)

    clock.advance(0.05 + THRESHOLD_SECONDS - 0.01)
    await asyncio.sleep(0.4)
    assert blocked.count == 0

    clock.advance(0.05 + THRESHOLD_SECONDS + 0.01)
    await blocked.times(1)
    watchdog.stop()


async def test_it_can_be_turned_off_and_on(
    watching: LoopWatchdog, blocked: Blocked, ours: dict[str, Callable[..., object]]
) -> None:
    watching.watch(0)
    ours["spin"](0.5)
    await asyncio.sleep(0.3)
    assert blocked.count == 0

    watching.watch(THRESHOLD_SECONDS)
    await asyncio.sleep(0.2)
    ours["spin"](0.5)
    await blocked.times(1)


async def test_each_time_is_counted_once(
    watching: LoopWatchdog, blocked: Blocked, ours: dict[str, Callable[..., object]]
) -> None:
    for count in (1, 2, 3):
        ours["spin"](0.4)
        await blocked.times(count)
    await asyncio.sleep(0.3)

    assert blocked.count == 3
