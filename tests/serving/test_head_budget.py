"""Unfinished heads: bounded for all clients together, at the cost of who holds most."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from proxy.serving.head_budget import HeadBudget
from proxy.serving.limits import ConnectionLimits
from tests.serving.listening import Place, listening
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes


class Holder:
    def __init__(self) -> None:
        self.times_it_gave_way = 0

    def give_way(self) -> None:
        self.times_it_gave_way += 1


def test_what_is_held_is_counted_once_and_given_back_once() -> None:
    budget = HeadBudget(100)
    one, other = Holder(), Holder()

    budget.hold(one, 10)
    budget.hold(one, 30)
    budget.hold(other, 70)
    assert budget.held_bytes == 100
    budget.release(one)
    budget.release(one)

    assert budget.held_bytes == 70
    assert (one.times_it_gave_way, other.times_it_gave_way) == (0, 0)


@pytest.mark.parametrize("is_newcomer_largest", [False, True])
def test_whoever_holds_most_gives_way(is_newcomer_largest: object) -> None:
    budget = HeadBudget(100)
    small, large, newcomer = Holder(), Holder(), Holder()
    budget.hold(small, 10)
    budget.hold(large, 60)

    budget.hold(newcomer, 70 if is_newcomer_largest else 31)

    assert small.times_it_gave_way == 0
    assert (large.times_it_gave_way, newcomer.times_it_gave_way) == (
        (0, 1) if is_newcomer_largest else (1, 0)
    )
    assert budget.held_bytes == (70 if is_newcomer_largest else 41)


# --- on connections ----------------------------------------------------------------------------

LIMIT = 100_000
LIMITS = ConnectionLimits(unread_head_bytes=LIMIT)


def held_bytes(place: Place) -> int:
    return place.listener._shared.heads.held_bytes


async def hoard(client: HttpClient, place: Place, count: int) -> None:
    """Send that many bytes of a head that does not end."""
    before = held_bytes(place)
    await client.send(b"GET / HTTP/1.1\r\nX: ".ljust(count, b"x"))
    await eventually(lambda: held_bytes(place) == before + count)


async def test_a_hoarder_is_told_to_come_again_and_all_others_are_served(
    certificates: Certificates,
) -> None:
    context = certificates.client_context()
    async with listening(certificates, LIMITS) as place, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connected(place.address, context)) for _ in range(4)
        ]
        hoarder, *others = clients
        await hoard(hoarder, place, 60_000)
        for other in others[:2]:
            await hoard(other, place, 20_000)

        await others[2].send(b"GET /newcomer HTTP/1.1\r\n")

        async with asyncio.timeout(10):
            assert (await hoarder.read_response()).status == 429
        assert await hoarder.read_to_end() == b""
        for other in others:
            await other.send(b"\r\nHost: a\r\n\r\n" if other in others[:2] else b"Host: a\r\n\r\n")
            assert (await other.read_response()).status == 200
        assert place.handler.refusals == [429]
        assert held_bytes(place) == 0


async def test_one_who_holds_more_than_all_may_is_told_so(certificates: Certificates) -> None:
    async with (
        listening(certificates, LIMITS) as place,
        connected(place.address, certificates.client_context()) as client,
    ):
        await client.send(b"GET / HTTP/1.1\r\nX: ".ljust(LIMIT + 1, b"x"))

        async with asyncio.timeout(10):
            assert (await client.read_response()).status == 429
        assert await client.read_to_end() == b""
        assert held_bytes(place) == 0


async def test_bytes_of_the_next_head_count_when_its_turn_comes(
    place: Place, client: HttpClient
) -> None:
    await client.send(request_bytes() + b"GET /next HTTP/1.1\r\n")
    assert (await client.read_response()).status == 200

    await eventually(lambda: held_bytes(place) == len(b"GET /next HTTP/1.1\r\n"))

    await client.send(b"Host: a\r\n\r\n")
    assert (await client.read_response()).body == b"/next"
    assert held_bytes(place) == 0


@pytest.mark.parametrize("end", ["goodbye", "vanish", "late", "stop"])
async def test_an_unfinished_head_is_forgotten_with_its_client(
    place: Place, client: HttpClient, end: str
) -> None:
    await hoard(client, place, 5000)

    if end == "goodbye":
        await client.close()
    elif end == "vanish":
        client.vanish()
    elif end == "late":
        place.clock.advance(1000)
        place.listener.close_late()
    else:
        await place.listener.stop()

    await eventually(lambda: held_bytes(place) == 0)
    await eventually(lambda: not place.listener._connections)
