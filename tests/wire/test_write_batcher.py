"""What is written in one turn of the event loop leaves at its end, all of it, in order."""

import asyncio
from collections.abc import Callable

import pytest

from proxy.wire.write_batcher import WriteBatcher, current_batcher
from tests.support.clock import FakeClock


class Sender:
    """Notes when it is let send."""

    def __init__(self, told: list[str], name: str, fault: Exception | None = None) -> None:
        self._told = told
        self._name = name
        self._fault = fault

    def send_unsent(self) -> None:
        self._told.append(self._name)
        if self._fault is not None:
            raise self._fault


@pytest.fixture
def told() -> list[str]:
    return []


async def test_everybody_waits_for_the_end_of_the_turn_and_sends_in_order(told: list[str]) -> None:
    batcher = WriteBatcher()

    for name in "abc":
        batcher.add(Sender(told, name))
    before = list(told)
    await asyncio.sleep(0)

    assert (before, told) == ([], ["a", "b", "c"])


async def test_the_next_turn_sends_as_well(told: list[str]) -> None:
    batcher = WriteBatcher()

    for name in "ab":
        batcher.add(Sender(told, name))
        await asyncio.sleep(0)

    assert told == ["a", "b"]


async def test_many_do_not_wait_for_the_end_of_a_long_turn(told: list[str]) -> None:
    batcher = WriteBatcher()

    for number in range(40):
        batcher.add(Sender(told, str(number)))
    early = len(told)
    await asyncio.sleep(0)

    assert early == 32
    assert told == [str(number) for number in range(40)]


async def take_turns(batcher: WriteBatcher, count: int) -> None:
    """Let one sender have each of some turns."""
    for _ in range(count):
        batcher.add(Sender([], "alone"))
        await asyncio.sleep(0)


async def test_after_some_turns_with_one_sender_another_one_alone_is_expected() -> None:
    batcher = WriteBatcher()

    await take_turns(batcher, 3)
    before = batcher.expects_single_writer
    await take_turns(batcher, 1)

    assert (before, batcher.expects_single_writer) == (False, True)


async def test_a_turn_with_two_senders_ends_that() -> None:
    batcher = WriteBatcher()
    await take_turns(batcher, 4)
    for name in "ab":
        batcher.add(Sender([], name))
    await asyncio.sleep(0)
    await take_turns(batcher, 3)

    assert not batcher.expects_single_writer


def test_who_asks_just_after_another_is_not_alone() -> None:
    clock = FakeClock()
    batcher = WriteBatcher(clock)
    answers = []

    for seconds in (0.0, 0.001, 0.00001, 0.00001, 0.001):
        clock.advance(seconds)
        answers.append(batcher.may_write_through())

    assert answers == [True, True, False, False, True]


async def test_who_cannot_send_keeps_nobody_else_from_it(
    told: list[str], failures: Callable[[], list[BaseException]]
) -> None:
    batcher = WriteBatcher()

    for name, fault in (("a", None), ("b", OSError("broken")), ("c", None)):
        batcher.add(Sender(told, name, fault))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert told == ["a", "b", "c"]
    assert [str(failure) for failure in failures()] == ["broken"]


@pytest.fixture
async def failures() -> Callable[[], list[BaseException]]:
    """Return what tells which exceptions the event loop was left with."""
    seen: list[BaseException] = []

    def note(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        assert isinstance(context["exception"], BaseException)
        seen.append(context["exception"])

    asyncio.get_running_loop().set_exception_handler(note)
    return lambda: seen


async def test_an_event_loop_has_one_outbox_and_another_loop_another() -> None:
    here = current_batcher()

    there = await asyncio.to_thread(lambda: asyncio.run(_outbox()))

    assert current_batcher() is here
    assert there is not here


async def _outbox() -> WriteBatcher:
    return current_batcher()
