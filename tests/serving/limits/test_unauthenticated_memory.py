"""Memory before authentication: bounded for all clients together, refused where most is held."""

import asyncio
import random
import time
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

import pytest

from proxy.serving.limits.unauthenticated_memory import (
    MemoryReservation,
    UnauthenticatedMemoryBudget,
)
from tests.serving.listening import Place, Receiver, held, listening
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes


class Refusals:
    """Why somebody was refused, and who."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.refused: list[str] = []

    def open(
        self, budget: UnauthenticatedMemoryBudget, name: str, origin: str = "here"
    ) -> MemoryReservation:
        return budget.open(origin, lambda: self.refused.append(name))


def test_held_bytes_are_counted_once_and_released_once() -> None:
    budget, refusals = UnauthenticatedMemoryBudget(100, 100), Refusals()
    one, other = refusals.open(budget, "one"), refusals.open(budget, "other")

    one.resize(10)
    one.resize(30)
    other.resize(70)
    assert budget.used_bytes == 100
    one.release()
    one.release()

    assert budget.used_bytes == 70
    other.release()
    assert budget.used_bytes == 0
    assert refusals.refused == []


@pytest.mark.parametrize("is_newcomer_largest", [False, True])
def test_the_largest_holding_is_refused_when_the_budget_is_full(
    is_newcomer_largest: object,
) -> None:
    refusals = Refusals()
    budget = UnauthenticatedMemoryBudget(100, 100, when_rejected=refusals.reasons.append)
    refusals.open(budget, "small", "a").resize(10)
    refusals.open(budget, "large", "b").resize(60)

    refusals.open(budget, "newcomer", "c").resize(75 if is_newcomer_largest else 31)

    assert refusals.refused == (["newcomer"] if is_newcomer_largest else ["large"])
    assert refusals.reasons == ["total"]
    assert budget.used_bytes == (70 if is_newcomer_largest else 41)


def test_an_address_over_its_share_loses_its_own_largest_holding() -> None:
    refusals = Refusals()
    budget = UnauthenticatedMemoryBudget(100, 50, when_rejected=refusals.reasons.append)
    refusals.open(budget, "elsewhere", "there").resize(45)
    refusals.open(budget, "large").resize(30)
    refusals.open(budget, "small").resize(10)

    refusals.open(budget, "newcomer").resize(15)

    assert refusals.refused == ["large"]
    assert refusals.reasons == ["address"]
    assert budget.used_bytes == 70


def test_new_limits_hold_from_the_next_bytes_on() -> None:
    refusals = Refusals()
    budget = UnauthenticatedMemoryBudget(100, 100, when_rejected=refusals.reasons.append)
    large, small = refusals.open(budget, "large"), refusals.open(budget, "small")
    large.resize(60)
    small.resize(10)

    budget.set_limits(50, 100)
    assert refusals.refused == []
    small.resize(11)

    assert refusals.refused == ["large"]
    assert (budget.used_bytes, budget.limit_bytes) == (11, 50)


def test_refusals_that_let_nothing_go_end_and_do_not_deepen_the_stack() -> None:
    """Nested refusals would need more stack than there is, and leave the counts half changed."""
    count, refused = 1000, Counter[int]()
    budget = UnauthenticatedMemoryBudget(count * 2000, 100)
    holdings: list[MemoryReservation] = []

    def hold_again(number: int) -> None:
        refused[number] += 1
        holdings[number].resize(2000)

    for number in range(count + 1):
        holdings.append(budget.open("here", partial(hold_again, number)))
        holdings[number].resize(2000)

    assert set(refused.values()) == {1}
    assert budget.used_bytes == sum(holding.size_bytes for holding in holdings)
    for holding in holdings:
        holding.release()
    assert budget.used_bytes == 0


def test_a_refusal_that_keeps_a_little_costs_no_more_refusals_than_needed() -> None:
    refused: list[int] = []
    budget = UnauthenticatedMemoryBudget(100, 100)
    holdings: list[MemoryReservation] = []

    def keep_a_little(number: int) -> None:
        refused.append(number)
        holdings[number].resize(3)

    for number in range(10):
        holdings.append(budget.open("here", partial(keep_a_little, number)))
        holdings[number].resize(10)

    holdings[9].resize(14)

    assert refused == [9]
    assert budget.used_bytes == 93


def test_the_refused_holding_is_the_largest_to_within_an_eighth() -> None:
    randomness = random.Random(1)
    for _ in range(300):
        sizes = [randomness.randint(1, 1 << randomness.randint(1, 20)) for _ in range(20)]
        budget, refusals = UnauthenticatedMemoryBudget(sum(sizes), 100), Refusals()
        for size in sizes:
            refusals.open(budget, str(size)).resize(size)

        refusals.open(budget, "1").resize(1)

        assert int(refusals.refused[0]) * 8 / 7 >= max(sizes)


def test_the_cost_of_a_refusal_does_not_grow_with_the_number_of_holdings() -> None:
    def seconds(holdings: int) -> float:
        budget, refusals = UnauthenticatedMemoryBudget(holdings * 1000, 100), Refusals()
        for number in range(holdings):
            refusals.open(budget, "", str(number % 100)).resize(1000)
        newcomers = [refusals.open(budget, "") for _ in range(1000)]
        started = time.thread_time()
        for newcomer in newcomers:
            newcomer.resize(1000)
        return time.thread_time() - started

    few, many = (min(seconds(count) for _ in range(3)) for count in (500, 20_000))

    assert many < 4 * few + 0.005


# --- on connections ----------------------------------------------------------------------------

LIMIT = 200_000
# A head of up to 96 KiB has made the TLS buffer grow by as much.
TWICE = 2


def held_bytes(place: Place) -> int:
    return place.budget.used_bytes


async def hoard(client: HttpClient, place: Place, count: int) -> None:
    """Send that many bytes of a head that does not end."""
    before = held_bytes(place)
    await client.send(b"GET / HTTP/1.1\r\nX: ".ljust(count, b"x"))
    await eventually(lambda: held_bytes(place) == before + TWICE * count)


async def test_the_largest_partial_head_is_refused_and_all_others_are_served(
    certificates: Certificates,
) -> None:
    context = certificates.client_context()
    async with listening(certificates, budget_bytes=LIMIT) as place, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connected(place.address, context)) for _ in range(4)
        ]
        hoarder, *others = clients
        await eventually(lambda: held_bytes(place) == 0)  # every handshake is done
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
        listening(certificates, budget_bytes=LIMIT) as place,
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

    await eventually(lambda: held_bytes(place) == TWICE * len(b"GET /next HTTP/1.1\r\n"))

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
        place.listener.close_expired()
    else:
        await place.listener.stop()

    await eventually(lambda: held_bytes(place) == 0)
    await eventually(lambda: not place.listener._connections)


async def test_a_handshake_is_counted_until_its_request_is_authenticated(
    place: Place, certificates: Certificates
) -> None:
    async with connected(place.address) as client:
        await eventually(lambda: len(place.listener.connections) == 1)
        await client.shake_hands(certificates.client_context("alice"))
        # Its certificate, while no request has shown that it is good for anything.
        await eventually(lambda: 1000 < held_bytes(place) < 20_000)

        assert (await client.request()).status == 200

        assert held_bytes(place) == 0


async def test_a_waiting_head_and_what_follows_it_count_until_the_caller_is_authenticated(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds, place.handler.authenticates = True, False
    head = request_bytes("POST", headers=[("Content-Length", "50000"), ("X", "x" * 10_000)])
    await client.send(head)
    await held(place)
    assert held_bytes(place) > 4 * len(head)
    before = held_bytes(place)

    await client.send(bytes(30_000))
    await eventually(lambda: held_bytes(place) >= before + 30_000)

    place.handler.held[0].mark_authenticated(is_anonymous=False)
    assert held_bytes(place) == 0
    await client.send(bytes(10_000))
    await eventually(lambda: len(place.listener.connections[0]._heads.buffer) == 40_000)
    assert held_bytes(place) == 0


async def test_a_request_that_was_refused_leaves_nothing_behind(
    place: Place, certificates: Certificates
) -> None:
    place.handler.authenticates = False
    async with connected(place.address, certificates.client_context(None)) as client:
        assert (await client.request(headers=[("X", "x" * 5000)])).status == 200

        assert held_bytes(place) == 0
        (connection,) = place.listener.connections
        assert connection._heads._parser._blocks == {}
        assert connection._heads._parser._last is None


async def test_an_anonymous_caller_is_served_and_its_connection_stays_unauthenticated(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds, place.handler.authenticates = True, False
    await client.send(request_bytes())
    await held(place)

    place.handler.held[0].mark_authenticated(is_anonymous=True)

    assert place.handler.held[0].is_open
    assert place.listener.unauthenticated_connections == 1


# --- connections with certificates -------------------------------------------------------------

CONNECTIONS = 40


async def fill(
    place: Place, certificates: Certificates, stack: AsyncExitStack, *, sends: bytes
) -> list[HttpClient]:
    """Connect with a certificate, and send the same on each connection."""
    context = certificates.client_context("alice")
    clients = [
        await stack.enter_async_context(connected(place.address, context))
        for _ in range(CONNECTIONS)
    ]
    for client in clients:
        await client.send(sends)
    connections = place.listener.connections
    await eventually(lambda: all(one._certificate_bytes for one in connections))
    await eventually(lambda: all(one._heads.searched == len(sends) for one in connections))
    return clients


def open_connections(place: Place) -> int:
    return sum(connection.is_open for connection in place.listener.connections)


@pytest.mark.parametrize("sends", [b"", b"G"], ids=["idle", "partial head"])
async def test_one_newcomer_costs_one_connection_when_all_have_certificates(
    certificates: Certificates, sends: bytes
) -> None:
    async with listening(certificates) as place, AsyncExitStack() as stack:
        await fill(place, certificates, stack, sends=sends)
        # Less than the newcomer's handshake and its certificate, and more than its hello.
        place.budget.set_limits(held_bytes(place) + 1500, 100)

        newcomer = await stack.enter_async_context(
            connected(place.address, certificates.client_context("alice"))
        )
        assert (await newcomer.request()).status == 200

        assert open_connections(place) == CONNECTIONS
        assert place.handler.refusals == ([429] if sends else [])


async def test_a_lowered_limit_costs_as_many_connections_as_are_too_many(
    certificates: Certificates,
) -> None:
    async with listening(certificates) as place, AsyncExitStack() as stack:
        clients = await fill(place, certificates, stack, sends=b"G")
        place.budget.set_limits(held_bytes(place) // 2, 100)

        await clients[0].send(b"E")

        await eventually(lambda: place.handler.refusals)
        assert place.handler.refusals == [429] * (CONNECTIONS // 2)
        assert open_connections(place) == CONNECTIONS // 2
        assert held_bytes(place) <= place.budget.limit_bytes


# --- connections with an authenticated request ---------------------------------------------------


async def test_a_refused_request_leaves_nothing_counted_on_an_authenticated_connection(
    place: Place, client: HttpClient
) -> None:
    assert (await client.request()).status == 200
    place.handler.holds, place.handler.authenticates = True, False
    await client.send(request_bytes(headers=[("Authorization", "Bearer " + "x" * 15_000)]))
    await held(place)
    assert held_bytes(place) > 60_000

    place.handler.held[0].send_response(401, [], b"")

    assert (await client.read_response()).status == 401
    assert held_bytes(place) == 0


async def test_a_request_in_flight_on_an_authenticated_connection_is_not_cut_for_memory(
    place: Place, client: HttpClient
) -> None:
    assert (await client.request()).status == 200
    place.handler.holds, place.handler.authenticates = True, False
    await client.send(request_bytes())
    await held(place)
    (connection,) = place.listener.connections
    receiver = Receiver()
    assert held_bytes(place) > 0

    # As a repeated request is forwarded: nobody says again that its caller is known.
    place.handler.held[0].attach(receiver)
    place.budget.set_limits(1, 100)
    connection._reserve(2)

    assert held_bytes(place) == 0
    assert receiver.heard == []
    place.handler.held[0].send_response(200, [], b"whole")
    assert (await client.read_response()).body == b"whole"


async def test_an_anonymous_request_in_flight_is_cut_for_memory(
    place: Place, certificates: Certificates
) -> None:
    place.handler.holds, place.handler.authenticates = True, False
    async with connected(place.address, certificates.client_context(None)) as client:
        await client.send(request_bytes())
        await held(place)
        (connection,) = place.listener.connections
        receiver = Receiver()
        place.handler.held[0].attach(receiver)

        place.budget.set_limits(1, 100)
        connection._reserve(2)

        assert receiver.heard == ["gone"]
        await eventually(lambda: not place.listener.connections)
