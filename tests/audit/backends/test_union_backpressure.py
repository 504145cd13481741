import asyncio

import pytest

from proxy.audit.backends.buffer import BackendMode, EventBuffer
from proxy.audit.backends.union import AuditBackpressure
from proxy.core.errors import AuditUnavailable
from tests.audit.counting import Counts, limits


class Refusals:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def full(mode: BackendMode, *, events: int = 4) -> EventBuffer:
    backlog = EventBuffer("log", limits(mode, events=events), Counts(), lambda: None)
    for _ in range(events // 2):
        backlog.write(b"x")
    return backlog


def failing(mode: BackendMode) -> EventBuffer:
    backlog = EventBuffer("log", limits(mode, events=4), Counts(), lambda: None)
    backlog.mark_failed("write", "No space left on device")
    return backlog


@pytest.mark.parametrize(
    ("backlog", "expected"),
    [
        (full(BackendMode.BATCH), "goes on"),
        (failing(BackendMode.BATCH), "goes on"),
        (full(BackendMode.BLOCKING), "waits"),
        (failing(BackendMode.BLOCKING), "goes on"),
        (full(BackendMode.BLOCKING_STRICT), "waits"),
        (failing(BackendMode.BLOCKING_STRICT), "waits"),
    ],
    ids=[f"{state} {mode}" for mode in BackendMode for state in ("full", "failing")],
)
def test_who_has_to_wait(backlog: EventBuffer, expected: str) -> None:
    is_free = AuditBackpressure([backlog], Refusals()).has_capacity()

    assert is_free == (expected == "goes on")


def test_one_backend_that_holds_up_is_enough() -> None:
    backpressure = AuditBackpressure(
        [failing(BackendMode.BATCH), full(BackendMode.BLOCKING)], Refusals()
    )

    assert not backpressure.has_capacity()


async def test_a_strict_backend_that_fails_refuses_at_once() -> None:
    refusals = Refusals()
    backpressure = AuditBackpressure([failing(BackendMode.BLOCKING_STRICT)], refusals)
    began = asyncio.get_running_loop().time()

    with pytest.raises(AuditUnavailable) as refusal:
        await backpressure.wait()

    assert asyncio.get_running_loop().time() - began < 2
    assert (refusal.value.code, refusal.value.message) == (500, "failed to store audit event")
    assert refusals.count == 1


@pytest.mark.parametrize("mode", [BackendMode.BLOCKING, BackendMode.BLOCKING_STRICT])
async def test_whoever_waits_goes_on_as_soon_as_there_is_room(mode: BackendMode) -> None:
    backlog, refusals = full(mode), Refusals()
    backpressure = AuditBackpressure([backlog], refusals)

    async with asyncio.timeout(4), asyncio.TaskGroup() as group:
        waiting = group.create_task(backpressure.wait())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        backlog.mark_stored(2, 2)
        assert not backpressure.has_capacity()  # for whoever comes now: others were here before

    assert refusals.count == 0
    assert backpressure.has_capacity()


async def test_those_who_wait_go_on_no_faster_than_their_events_find_room() -> None:
    backlog = full(BackendMode.BLOCKING, events=60)
    backpressure = AuditBackpressure([backlog], Refusals())
    gone_on = 0

    async def walk() -> None:
        nonlocal gone_on
        await backpressure.wait()
        gone_on += 1
        for _ in range(3):
            backlog.write(b"x")

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(walk())
        await asyncio.sleep(0.1)
        backlog.mark_stored(30, 30)
        await asyncio.sleep(0.3)
        assert gone_on == 10
        assert not backpressure.has_capacity()
        while len(backlog):
            backlog.mark_stored(len(backlog), len(backlog))
            await asyncio.sleep(0.1)

    assert gone_on == 40
    assert isinstance(backlog._metrics, Counts)
    assert backlog._metrics.lost == {}


async def test_a_strict_backend_that_begins_to_fail_refuses_those_who_wait() -> None:
    backlog, refusals = full(BackendMode.BLOCKING_STRICT), Refusals()
    backpressure = AuditBackpressure([backlog], refusals)

    async with asyncio.timeout(4), asyncio.TaskGroup() as group:
        waiting = [group.create_task(refused(backpressure)) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert not any(one.done() for one in waiting)
        backlog.mark_failed("write", "No space left on device")

    assert refusals.count == 5


async def refused(backpressure: AuditBackpressure) -> None:
    with pytest.raises(AuditUnavailable):
        await backpressure.wait()


async def test_who_has_left_takes_nobodys_place() -> None:
    backlog = full(BackendMode.BLOCKING)
    backpressure = AuditBackpressure([backlog], Refusals())

    async with asyncio.timeout(4), asyncio.TaskGroup() as group:
        leaving = [group.create_task(backpressure.wait()) for _ in range(200)]
        staying = group.create_task(backpressure.wait())
        await asyncio.sleep(0)
        for one in leaving:
            one.cancel()
        backlog.mark_stored(1, 1)
        await staying

    assert backpressure.has_capacity()


async def test_a_backend_that_stays_slow_holds_nobody_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.audit.backends.union._MAX_WAIT_SECONDS", 0.1)
    refusals = Refusals()

    await AuditBackpressure([full(BackendMode.BLOCKING)], refusals).wait()
    with pytest.raises(AuditUnavailable):
        await AuditBackpressure([full(BackendMode.BLOCKING_STRICT)], refusals).wait()

    assert refusals.count == 1
