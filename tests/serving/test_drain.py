"""Who is let go, and how: at the level of connections, with nothing behind them."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from proxy.serving.drain import Drain
from proxy.serving.drain_schedule import DrainTimes
from proxy.serving.limits.connections import ConnectionLimits
from tests.serving.listening import LIMITS, Place, held, listening
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes

AGE_SECONDS = 600.0


def drain_of(place: Place, *, delay: float, grace: float = 60) -> Drain:
    clock = asyncio.get_running_loop().time
    return Drain(place.listener, DrainTimes(delay, 0, grace), clock=clock)


@pytest.fixture
async def aging(certificates: Certificates) -> AsyncIterator[Place]:
    """A place whose connections grow old."""
    limits = ConnectionLimits(idle_seconds=10_000, age_seconds=AGE_SECONDS)
    async with listening(certificates, limits) as place:
        yield place


async def test_an_old_connection_ends_with_its_next_answer(
    aging: Place, certificates: Certificates
) -> None:
    async with connected(aging.address, certificates.client_context()) as client:
        assert (await client.request()).values("connection") == []
        aging.clock.advance(AGE_SECONDS * 1.2 + 1)
        aging.listener.close_expired()

        answer = await client.request()

        assert answer.status == 200
        assert answer.values("connection") == ["close"]
        assert await client.read_to_end() == b""


async def test_a_young_connection_goes_on(aging: Place, certificates: Certificates) -> None:
    async with connected(aging.address, certificates.client_context()) as client:
        assert (await client.request()).status == 200
        aging.clock.advance(AGE_SECONDS * 0.8 - 1)
        aging.listener.close_expired()

        assert (await client.request()).values("connection") == []


async def test_connections_of_one_moment_do_not_grow_old_together(aging: Place) -> None:
    for _ in range(50):
        aging.listener._new_connection()
    made = [connection.retires_at for connection in aging.listener.connections]

    assert max(made) - min(made) > AGE_SECONDS / 10
    aging.listener._connections.clear()


async def test_who_waits_in_the_queue_is_served_though_nobody_new_is_accepted(
    place: Place, certificates: Certificates
) -> None:
    # The kernel completes these without the event loop, which has no turn before the end.
    waiting = [socket.create_connection(place.address) for _ in range(5)]

    await place.listener.stop_accepting()

    with pytest.raises(ConnectionError):
        await asyncio.open_connection(*place.address)
    for one in waiting:
        client = HttpClient(*await asyncio.open_connection(sock=one))
        await client.shake_hands(certificates.client_context())
        assert (await client.request()).status == 200
        await client.close()


async def test_a_second_instance_takes_everybody_when_the_first_one_ends(
    place: Place, certificates: Certificates
) -> None:
    other = Place(place.listener._context, LIMITS, place.budget)
    await other.listener.start(*place.address)
    context = certificates.client_context()

    await place.listener.stop_accepting()

    for _ in range(20):
        async with connected(place.address, context) as client:
            assert (await client.request()).status == 200
    assert len(other.handler.targets) == 20
    assert place.handler.targets == []
    await other.listener.stop()


async def test_while_it_is_announced_every_answer_is_its_connections_last(
    place: Place, certificates: Certificates
) -> None:
    context = certificates.client_context()
    drain = drain_of(place, delay=60)
    place.handler.holds = True
    async with (
        connected(place.address, context) as busy,
        connected(place.address, context) as idle,
        asyncio.TaskGroup() as group,
    ):
        await busy.send(request_bytes())
        await held(place)
        draining = group.create_task(drain.run())
        await eventually(lambda: drain.has_started)
        place.handler.held[0].send_response(200, [], b"served")
        place.handler.holds = False

        async with connected(place.address, context) as newcomer:
            answers = [
                await busy.read_response(),
                await idle.request(),
                await newcomer.request(),
            ]

        assert [answer.status for answer in answers] == [200, 200, 200]
        assert [answer.values("connection") for answer in answers] == [["close"]] * 3
        assert not draining.done()
        drain.skip_grace_period()


async def test_afterwards_only_who_has_not_asked_yet_is_served(
    place: Place, certificates: Certificates
) -> None:
    context = certificates.client_context()
    drain = drain_of(place, delay=0)
    place.handler.holds = True
    async with (
        connected(place.address, context) as busy,
        connected(place.address, context) as idle,
        connected(place.address, context) as newcomer,
        asyncio.TaskGroup() as group,
    ):
        await idle.send(request_bytes(target="/before"))
        await held(place)
        place.handler.held[0].send_response(200, [], b"before")
        assert (await idle.read_response()).body == b"before"
        await busy.send(request_bytes(target="/busy"))
        await held(place, 2)
        draining = group.create_task(drain.run())
        await eventually(lambda: place.listener._server is None)

        late = await idle.request("POST", "/late", body=b"x")
        await newcomer.send(request_bytes(target="/new"))
        await held(place, 3)
        assert not draining.done()
        for exchange in place.handler.held[1:]:
            exchange.send_response(200, [], exchange.request.target)

        assert (late.status, late.values("connection")) == (429, ["close"])
        assert (await newcomer.read_response()).body == b"/new"
        assert (await busy.read_response()).body == b"/busy"
        await draining
    assert place.handler.targets == [b"/before", b"/busy", b"/new"]


async def test_a_slow_reader_is_waited_for(place: Place, certificates: Certificates) -> None:
    drain = drain_of(place, delay=0)
    place.handler.body = b"x" * 5_000_000
    async with (
        connected(place.address, certificates.client_context()) as client,
        asyncio.TaskGroup() as group,
    ):
        client.stop_reading()
        await client.send(request_bytes())
        await eventually(lambda: any(one.is_sending for one in place.listener.connections))

        draining = group.create_task(drain.run())
        await eventually(lambda: place.listener._server is None)
        for _ in range(5):
            await asyncio.sleep(0.05)
        assert not draining.done()
        client._writer.transport.resume_reading()  # type: ignore[attr-defined]  # it reads, too

        assert (await client.read_response()).body == place.handler.body
        await draining
