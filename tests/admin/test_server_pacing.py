"""Turns that are spaced in time."""

import asyncio

from proxy.admin.server import Pacing

PAUSE_SECONDS = 0.02


async def test_the_first_turn_is_given_at_once() -> None:
    async with asyncio.timeout(PAUSE_SECONDS / 2):
        await Pacing().wait(PAUSE_SECONDS)


async def test_turns_are_given_in_order_with_a_pause_after_each() -> None:
    pacing, loop = Pacing(), asyncio.get_running_loop()
    given: list[tuple[int, float]] = []

    async def take(number: int) -> None:
        await pacing.wait(PAUSE_SECONDS)
        given.append((number, loop.time()))

    await asyncio.gather(*(take(number) for number in range(4)))

    assert [number for number, _ in given] == [0, 1, 2, 3]
    # A timer of the loop may be a millisecond early.
    assert given[3][1] - given[0][1] >= 3 * (PAUSE_SECONDS - 0.001)


async def test_a_turn_that_is_not_waited_for_any_more_costs_no_pause() -> None:
    pacing = Pacing()
    await pacing.wait(PAUSE_SECONDS)
    given_up = [asyncio.ensure_future(pacing.wait(3600)) for _ in range(5)]
    waiting = asyncio.ensure_future(pacing.wait(PAUSE_SECONDS))
    await asyncio.sleep(0)
    for one in given_up:
        one.cancel()

    async with asyncio.timeout(5):
        await waiting
