"""Whoever waits hears of it when the time is over, and not before; one timer serves all."""

import asyncio

from proxy.concurrency.deadline_queue import DeadlineQueue
from tests.support.event_loops import eventually


class Waiting:
    """Notes when its time was over."""

    def __init__(self, told: list[str], name: str, fault: Exception | None = None) -> None:
        self._told = told
        self._name = name
        self._fault = fault

    def deadline_passed(self) -> None:
        self._told.append(self._name)
        if self._fault is not None:
            raise self._fault


async def test_each_hears_when_its_own_time_is_over() -> None:
    told: list[str] = []
    deadlines, loop = DeadlineQueue(0.2), asyncio.get_running_loop()
    started = loop.time()

    deadlines.start(Waiting(told, "first"))
    await asyncio.sleep(0.1)
    deadlines.start(Waiting(told, "second"))
    await eventually(lambda: told == ["first"])
    first_after = loop.time() - started
    await eventually(lambda: told == ["first", "second"])
    second_after = loop.time() - started

    assert first_after >= 0.19  # the clocks of a loop and of the machine differ by a bit
    assert second_after >= 0.29


async def test_who_has_stopped_hears_nothing() -> None:
    told: list[str] = []
    deadlines = DeadlineQueue(0.02)
    early, late = Waiting(told, "early"), Waiting(told, "late")

    deadlines.start(early)
    deadlines.start(late)
    deadlines.stop(early)
    deadlines.stop(early)
    await eventually(lambda: told)

    assert told == ["late"]


async def test_after_a_quiet_time_the_clock_is_set_anew() -> None:
    told: list[str] = []
    deadlines = DeadlineQueue(0.01)

    deadlines.start(Waiting(told, "one"))
    await eventually(lambda: told == ["one"])
    deadlines.start(Waiting(told, "two"))
    await eventually(lambda: told == ["one", "two"])


async def test_a_fault_of_one_keeps_nobody_else_from_hearing() -> None:
    told: list[str] = []
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: faults.append(str(context["exception"]))
    )
    deadlines = DeadlineQueue(0.01)

    deadlines.start(Waiting(told, "broken", ValueError("oops")))
    deadlines.start(Waiting(told, "other"))
    await eventually(lambda: len(told) == 2)

    assert (told, faults) == (["broken", "other"], ["oops"])
