import asyncio

from proxy.concurrency.rate_limit import FairSemaphore

SETTLE = 5


async def settle() -> None:
    for _ in range(SETTLE):
        await asyncio.sleep(0)


class Visitors:
    """Callers that take a place, note it, and leave when told to."""

    def __init__(self, semaphore: FairSemaphore) -> None:
        self._semaphore = semaphore
        self.came: list[str] = []
        self.visits: list[asyncio.Future[None]] = []
        self.leave = asyncio.Semaphore(0)

    def send(self, name: str) -> "asyncio.Future[None]":
        visit = asyncio.ensure_future(self._visit(name))
        self.visits.append(visit)
        return visit

    async def _visit(self, name: str) -> None:
        async with self._semaphore.slot(name[0]):
            self.came.append(name)
            await self.leave.acquire()


async def test_callers_take_turns_and_each_keeps_its_own_order() -> None:
    visitors = Visitors(FairSemaphore(1))
    for name in ("a1", "a2", "a3", "a4", "b1", "c1", "b2"):
        _ = visitors.send(name)
        await settle()

    for _ in range(7):
        visitors.leave.release()
        await settle()

    assert visitors.came == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_no_more_than_the_places_are_taken() -> None:
    visitors = Visitors(FairSemaphore(2))
    for name in ("a1", "a2", "b1"):
        _ = visitors.send(name)
    await settle()

    assert visitors.came == ["a1", "a2"]
    visitors.leave.release()
    await settle()
    assert visitors.came == ["a1", "a2", "b1"]


async def test_who_gives_up_waiting_takes_nobodys_place() -> None:
    visitors = Visitors(FairSemaphore(1))
    _ = visitors.send("a1")
    await settle()
    impatient, patient = visitors.send("b1"), visitors.send("c1")
    await settle()

    impatient.cancel()
    await settle()
    visitors.leave.release()
    await settle()

    assert visitors.came == ["a1", "c1"]
    assert not patient.done()


async def test_a_place_given_to_who_gives_up_at_that_moment_goes_on_to_the_next() -> None:
    semaphore, leave = FairSemaphore(1), asyncio.Event()
    visitors = Visitors(semaphore)
    waiting: list[asyncio.Future[None]] = []

    async def hand_over_and_cancel() -> None:
        async with semaphore.slot("a"):
            waiting.extend((visitors.send("b1"), visitors.send("c1")))
            await leave.wait()
        waiting[0].cancel()  # it has the place by now, and has not woken yet

    handing_over = asyncio.ensure_future(hand_over_and_cancel())
    await settle()
    leave.set()
    await handing_over
    await settle()

    assert waiting[0].cancelled()
    assert visitors.came == ["c1"]
