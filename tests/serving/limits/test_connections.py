"""Who may come in, and that each place is given back."""

import asyncio

import pytest

from proxy.serving.limits.connections import ConnectionLimiter, ConnectionLimits
from tests.serving.listening import Place, listening
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import connected


class Guest:
    """Takes a place, and knows whether it was closed for another."""

    def __init__(self) -> None:
        self.is_evicted = False

    def evict(self) -> None:
        self.is_evicted = True


def authenticated(door: ConnectionLimiter, address: str) -> Guest:
    """Let in a guest whose place no newcomer gets."""
    guest = Guest()
    assert door.try_acquire(guest, address)
    door.mark_authenticated(guest)
    return guest


def unauthenticated(door: ConnectionLimiter, address: str) -> Guest:
    guest = Guest()
    assert door.try_acquire(guest, address)
    return guest


def test_there_are_so_many_places_and_no_more() -> None:
    door = ConnectionLimiter(max_connections=3, max_per_address=3)
    guests = [authenticated(door, f"10.0.0.{number}") for number in range(3)]

    let_in = [door.try_acquire(Guest(), f"10.0.1.{number}") for number in range(2)]

    assert let_in == [False, False]
    assert (door.active, door.take_rejected_count(), door.take_rejected_count()) == (3, 2, 0)
    assert not any(guest.is_evicted for guest in guests)


def test_one_address_cannot_take_all_places() -> None:
    door = ConnectionLimiter(max_connections=10, max_per_address=2)
    for _ in range(2):
        authenticated(door, "10.0.0.1")

    assert not door.try_acquire(Guest(), "10.0.0.1")
    assert door.try_acquire(Guest(), "10.0.0.2")


def test_a_place_is_given_back_once() -> None:
    door = ConnectionLimiter(max_connections=2, max_per_address=1)
    first, second = authenticated(door, "10.0.0.1"), authenticated(door, "10.0.0.2")
    third = Guest()
    assert not door.try_acquire(third, "10.0.0.3")

    for guest in (third, first, first, Guest()):
        door.release(guest)

    assert door.active == 1
    authenticated(door, "10.0.0.1")
    assert not door.try_acquire(Guest(), "10.0.0.3")
    assert not second.is_evicted


def test_f7_a_newcomer_gets_the_place_of_the_oldest_unauthenticated_connection() -> None:
    door = ConnectionLimiter(max_connections=3, max_per_address=3)
    known = authenticated(door, "10.0.0.1")
    oldest, newer = unauthenticated(door, "10.0.0.2"), unauthenticated(door, "10.0.0.3")

    unauthenticated(door, "10.0.0.4")

    assert (known.is_evicted, oldest.is_evicted, newer.is_evicted) == (False, True, False)
    assert (door.active, door.unauthenticated) == (3, 2)
    assert door.evictions == {"address": 0, "total": 1}
    door.release(oldest)
    assert door.active == 3


def test_f7_an_address_with_too_many_displaces_its_own_connections_only() -> None:
    door = ConnectionLimiter(max_connections=10, max_per_address=2)
    elsewhere = unauthenticated(door, "10.0.0.1")
    oldest, newer = (unauthenticated(door, "10.0.0.2") for _ in range(2))

    unauthenticated(door, "10.0.0.2")

    assert (elsewhere.is_evicted, oldest.is_evicted, newer.is_evicted) == (False, True, False)
    assert door.evictions == {"address": 1, "total": 0}


def test_f7_a_connection_that_did_something_is_not_the_oldest_any_more() -> None:
    door = ConnectionLimiter(max_connections=2, max_per_address=2)
    active, silent = unauthenticated(door, "10.0.0.1"), unauthenticated(door, "10.0.0.2")

    door.mark_active(active)
    unauthenticated(door, "10.0.0.3")

    assert (active.is_evicted, silent.is_evicted) == (False, True)


@pytest.mark.parametrize(
    ("address", "is_same"),
    [
        ("2001:db8:1:2::1", True),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", True),
        ("2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_an_ipv6_network_counts_as_one_address(address: str, is_same: object) -> None:
    door = ConnectionLimiter(max_connections=10, max_per_address=1)
    authenticated(door, "2001:db8:1:2::1%eth0")

    assert door.try_acquire(Guest(), address) is not is_same


def test_an_ipv4_client_is_the_same_on_a_socket_for_both() -> None:
    door = ConnectionLimiter(max_connections=10, max_per_address=1)
    authenticated(door, "::ffff:10.0.0.1")

    assert not door.try_acquire(Guest(), "10.0.0.1")
    assert door.try_acquire(Guest(), "::ffff:10.0.0.2")


@pytest.mark.parametrize(
    "limits",
    [ConnectionLimits(connections=2), ConnectionLimits(connections_per_address=2)],
    ids=["in total", "from one address"],
)
async def test_who_is_too_many_is_closed_before_the_handshake(
    certificates: Certificates, limits: ConnectionLimits
) -> None:
    context = certificates.client_context()
    async with listening(certificates, limits) as place:
        async with (
            connected(place.address, context) as first,
            connected(place.address, context) as second,
        ):
            for client in (first, second):
                assert (await client.request()).status == 200
            with pytest.raises(ConnectionError):
                async with connected(place.address, context):
                    pass
            assert place.listener.take_rejected_count() == 1
            assert (await second.request()).status == 200

        await nobody_is_there(place)
        async with connected(place.address, context) as next_one:
            assert (await next_one.request()).status == 200


async def test_no_place_is_lost_however_a_client_leaves(certificates: Certificates) -> None:
    context = certificates.client_context()
    async with listening(certificates, ConnectionLimits(connections=3)) as place:
        for round_number in range(9):
            async with connected(place.address, context) as client:
                if round_number % 3 == 0:
                    await client.request()
                    await client.close()
                elif round_number % 3 == 1:
                    await client.send(b"GET / HTT")
                else:
                    await client.send(b"nonsense\r\n\r\n")
                    await client.read_response()
            async with connected(place.address) as never_shakes_hands:
                never_shakes_hands._writer.write(b"nonsense")
                await asyncio.sleep(0)
            await nobody_is_there(place)


async def nobody_is_there(place: Place) -> None:
    await eventually(lambda: not place.listener._connections)
    assert place.listener._shared.connection_limiter.active == 0
    assert place.budget.used_bytes == 0
