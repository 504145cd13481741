"""The check that other tests use: it counts what this process does to its loop, and only that."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.loop_lag import LoopLag, watched_loop

BLOCKED_SECONDS = 0.6
LIMIT_SECONDS = 0.5  # the bar of the tests that use the check
STOPPED_SECONDS = 1.0
BUSY_SECONDS = 0.15
COMPETITORS = 6
IDLE_CHILD = """
import asyncio
from tests.support.loop_lag import watched_loop

async def main():
    async with watched_loop() as lag:
        print("watching", flush=True)
        await asyncio.sleep(1.5)
    print(lag.worst_seconds, lag.worst_delay_seconds)

asyncio.run(main())
"""
# Its affinity is that of the competitors. It uses little CPU time, for which it waits long.
BUSY_CHILD = f"""
import asyncio, time
from tests.support.loop_lag import watched_loop

async def main():
    async with watched_loop() as lag:
        await asyncio.sleep(0.1)
        began = time.thread_time()
        while time.thread_time() - began < {BUSY_SECONDS}:
            pass
    print(lag.worst_seconds, lag.worst_delay_seconds)

asyncio.run(main())
"""


def sleep() -> None:
    time.sleep(BLOCKED_SECONDS)


def loop_in_python() -> None:
    began = time.thread_time()
    while time.thread_time() - began < BLOCKED_SECONDS:
        pass


def hold_the_gil() -> None:
    """Run a C function that never releases the GIL: the reference thread is delayed, too."""
    number = 10**1000 + 1
    began = time.thread_time()
    while time.thread_time() - began < BLOCKED_SECONDS:
        # About 0.1 s each: pow of integers does not release the GIL.
        pow(3, number, number)


async def lag_of(block: Callable[[], None]) -> LoopLag:
    async with watched_loop() as lag:
        await asyncio.sleep(0.05)
        block()
    return lag


@pytest.mark.parametrize("block", [sleep, loop_in_python, hold_the_gil])
async def test_what_blocks_the_loop_is_counted(block: Callable[[], None]) -> None:
    lag = await lag_of(block)

    assert lag.worst_seconds > LIMIT_SECONDS


async def test_a_loop_that_waits_for_nothing_has_no_lag() -> None:
    lag = await lag_of(lambda: None)

    assert lag.worst_seconds < LIMIT_SECONDS


def test_a_process_that_is_stopped_did_not_block_its_loop() -> None:
    with child(IDLE_CHILD) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watching\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        process.send_signal(signal.SIGCONT)
        counted, delay = result_of(process)

    assert delay > STOPPED_SECONDS - 0.1
    assert counted < LIMIT_SECONDS


def test_a_process_that_waits_for_a_cpu_did_not_block_its_loop() -> None:
    """All run on one CPU: the child gets a seventh of it."""
    with on_one_cpu(), busy_children(COMPETITORS), child(BUSY_CHILD) as process:
        counted, delay = result_of(process)

    assert delay > LIMIT_SECONDS
    assert counted < LIMIT_SECONDS


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """Bind this process and the children that it starts to one CPU."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


@contextmanager
def busy_children(count: int) -> Iterator[None]:
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in children:
            process.kill()
            process.wait()


@contextmanager
def child(program: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def result_of(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Return the seconds that the child counted, and its longest delay by any cause."""
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    counted, delay = map(float, output.split())
    return counted, delay
