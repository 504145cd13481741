"""Work that outlives its starter: at once if it can, in a task if it must, never forgotten."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from proxy.concurrency.task_set import TaskSet
from tests.support.event_loops import eventually


class Owner:
    """Tasks, and what was reported of them."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.tasks = TaskSet(self.failures.append)


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    await owner.tasks.stop()


async def test_work_that_never_waits_is_done_at_once_and_costs_no_task(owner: Owner) -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("done")

    assert owner.tasks.start_eager(work()) is None
    assert done == ["done"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_work_that_awaits_what_never_waits_is_done_at_once(owner: Owner) -> None:
    async def answer() -> int:
        return 42

    async def work() -> None:
        results.append(await answer())

    results: list[int] = []

    assert owner.tasks.start_eager(work()) is None
    assert results == [42]


async def test_work_goes_on_after_its_first_wait(owner: Owner) -> None:
    steps: list[str] = []
    first, second = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        steps.append("started")
        await first.wait()
        steps.append("first")
        await second.wait()
        steps.append("second")
        return "result"

    task = owner.tasks.start_eager(work())

    assert steps == ["started"]
    assert task is not None
    first.set()
    second.set()
    assert await task == "result"
    assert steps == ["started", "first", "second"]
    assert owner.failures == []


async def test_work_may_give_way_without_waiting_for_anything(owner: Owner) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "result"

    task = owner.tasks.start_eager(work())

    assert task is not None
    assert await task == "result"


async def test_an_answer_that_is_there_before_the_task_is_not_missed(owner: Owner) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> int:
        return await future

    task = owner.tasks.start_eager(work())
    future.set_result(7)

    assert task is not None
    assert await task == 7


async def test_after_its_first_wait_work_is_in_a_task_of_its_own(owner: Owner) -> None:
    seen: list[asyncio.Task[object] | None] = []

    async def work() -> None:
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())
        async with asyncio.timeout(10):
            await asyncio.sleep(0)

    task = owner.tasks.start_eager(work())

    assert task is not None
    await task
    assert seen == [task]


async def test_a_failure_before_the_first_wait_is_raised_to_the_starter(owner: Owner) -> None:
    async def work() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        owner.tasks.start_eager(work())

    assert owner.failures == []


async def test_a_failure_after_the_first_wait_is_reported(owner: Owner) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("later")

    task = owner.tasks.start_eager(work())

    assert task is not None
    with pytest.raises(ValueError, match="later"):
        await task
    assert [str(failure) for failure in owner.failures] == ["later"]


async def test_a_failure_nobody_awaits_is_reported(owner: Owner) -> None:
    async def work() -> None:
        raise ValueError("alone")

    owner.tasks.start_background(work())

    await eventually(lambda: owner.failures)
    assert [str(failure) for failure in owner.failures] == ["alone"]


async def test_what_the_wait_raises_is_raised_in_the_work(owner: Owner) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await future
        except ConnectionError:
            return "caught"
        return "missed"

    task = owner.tasks.start_eager(work())
    future.set_exception(ConnectionError())

    assert task is not None
    assert await task == "caught"


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_cancelling_reaches_the_work_at_its_wait(owner: Owner, turns: int) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("cleaned up")

    task = owner.tasks.start_eager(work())
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert seen == ["cancelled", "cleaned up"]
    assert owner.failures == []


async def test_work_may_outlive_a_cancellation(owner: Owner) -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "still here"

    task = owner.tasks.start_eager(work())
    assert task is not None

    task.cancel()

    assert await task == "still here"


async def test_a_task_is_held_until_it_ends_though_nobody_else_holds_it(owner: Owner) -> None:
    gate, passed = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await gate.wait()
        passed.set()

    owner.tasks.start_background(work())
    await asyncio.sleep(0)
    gc.collect()
    gate.set()

    async with asyncio.timeout(1):
        await passed.wait()


async def test_stopping_ends_everything_even_what_starts_while_it_stops(owner: Owner) -> None:
    ended: list[str] = []

    async def late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("late")

    async def early() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            owner.tasks.start_background(late())
            await asyncio.sleep(0)
            ended.append("early")

    owner.tasks.start_background(early())
    await asyncio.sleep(0)

    await owner.tasks.stop()

    assert ended == ["early", "late"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_failure_leaves_the_others_alone(owner: Owner) -> None:
    gate = asyncio.Event()

    async def fails() -> None:
        raise ValueError

    async def goes_on() -> str:
        await gate.wait()
        return "fine"

    other = owner.tasks.start(goes_on())
    owner.tasks.start_background(fails())
    await eventually(lambda: owner.failures)
    gate.set()

    assert await other == "fine"
