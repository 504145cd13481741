"""Who is accepted, and who takes too long."""

import asyncio

import pytest

from proxy.serving.listener import Listener, ListenError
from tests.serving.listening import LIMITS, Handler, Place
from tests.support.certificates import Certificates
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes


async def ends(client: HttpClient) -> bool:
    """Wait for the server to close, and tell whether it said goodbye."""
    async with asyncio.timeout(5):
        assert await client.read_to_end() == b""
    return client.ended_with_goodbye


async def stays(client: HttpClient) -> None:
    """See that the connection still answers."""
    assert (await client.request()).status == 200


async def test_a_taken_port_is_one_clear_line(place: Place) -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    other = Listener(
        context=place.listener._context,
        handler=Handler(),
        limits=LIMITS,
        budget=place.budget,
        clock=FakeClock(),
    )

    with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: ") as refused:
        await other.start("127.0.0.1", port)

    assert "\n" not in str(refused.value)
    taken.close()


async def test_who_never_shakes_hands_is_closed(place: Place) -> None:
    async with connected(place.address) as client:
        await eventually(lambda: place.listener._connections)
        place.clock.advance(LIMITS.handshake_seconds - 1)
        place.listener.close_expired()
        assert len(place.listener._connections) == 1

        place.clock.advance(2)
        place.listener.close_expired()

        assert await client._reader.read() == b""


async def test_a_handshake_in_small_steps_is_closed_all_the_same(place: Place) -> None:
    async with connected(place.address) as client:
        await eventually(lambda: place.listener._connections)
        for byte in (b"\x16", b"\x03", b"\x01"):
            client._writer.write(byte)
            await client._writer.drain()
            place.clock.advance(LIMITS.handshake_seconds / 3 + 1)
            place.listener.close_expired()

        await eventually(lambda: not place.listener._connections)


async def test_what_is_not_tls_is_closed_at_once(place: Place) -> None:
    async with connected(place.address) as client:
        client._writer.write(request_bytes())

        async with asyncio.timeout(5):
            await client._reader.read()

    assert place.handler.targets == []


async def test_an_idle_client_is_sent_away_with_a_goodbye(
    place: Place, certificates: Certificates
) -> None:
    async with connected(place.address, certificates.client_context()) as client:
        await stays(client)
        await eventually(lambda: deadlines(place) == [place.clock.now + LIMITS.idle_seconds])
        place.clock.advance(LIMITS.idle_seconds - 1)
        place.listener.close_expired()
        await stays(client)

        place.clock.advance(LIMITS.idle_seconds + 1)
        place.listener.close_expired()

        assert await ends(client)


@pytest.mark.parametrize("asks", [False, True])
async def test_f7_a_connection_without_an_authenticated_request_is_closed_sooner(
    place: Place, certificates: Certificates, asks: object
) -> None:
    place.handler.authenticates = False
    seconds = LIMITS.unauthenticated_idle_seconds
    async with connected(place.address, certificates.client_context()) as client:
        if asks:
            await stays(client)
        await eventually(lambda: deadlines(place) == [place.clock.now + seconds])
        place.clock.advance(seconds - 1)
        place.listener.close_expired()
        assert len(place.listener.connections) == 1

        place.clock.advance(2)
        place.listener.close_expired()

        assert await ends(client)


async def test_each_request_starts_the_idle_time_anew(
    place: Place, certificates: Certificates
) -> None:
    async with connected(place.address, certificates.client_context()) as client:
        for _ in range(3):
            await stays(client)
            place.clock.advance(LIMITS.idle_seconds - 1)
            place.listener.close_expired()

        await stays(client)


async def test_a_head_in_small_steps_is_closed_when_its_time_is_over(
    place: Place, certificates: Certificates
) -> None:
    async with connected(place.address, certificates.client_context()) as client:
        await client.send(b"GET / HT")
        await eventually(lambda: deadlines(place) == [place.clock.now + LIMITS.head_seconds])
        place.clock.advance(LIMITS.head_seconds - 1)
        await client.send(b"TP/1.1\r\nX: ")
        (connection,) = place.listener._connections
        await eventually(lambda: len(connection._heads.buffer) > len(b"GET / HT"))
        place.listener.close_expired()
        assert deadlines(place)

        place.clock.advance(2)
        place.listener.close_expired()

        assert await ends(client)
    assert place.handler.targets == []


async def test_a_request_that_is_being_served_has_no_deadline(
    place: Place, certificates: Certificates
) -> None:
    place.handler.holds = True
    async with connected(place.address, certificates.client_context()) as client:
        await client.send(request_bytes())
        await eventually(lambda: place.handler.held)
        place.clock.advance(100_000)
        place.listener.close_expired()

        place.handler.held[0].send_response(200, [], b"at last")

        assert (await client.read_response()).body == b"at last"


async def test_who_does_not_take_its_last_answer_is_cut_off(
    place: Place, certificates: Certificates
) -> None:
    place.handler.holds = True
    async with connected(place.address, certificates.client_context()) as client:
        client.stop_reading()
        await client.send(request_bytes(headers=[("Connection", "close")]))
        await eventually(lambda: place.handler.held)
        place.handler.held[0].send_response(200, [], b"x" * 30_000_000)
        place.listener.close_expired()
        await asyncio.sleep(0)
        assert len(place.listener._connections) == 1

        # First it is not read any more, then what it has not taken is dropped.
        for _ in range(2):
            place.clock.advance(LIMITS.idle_seconds + 1)
            place.listener.close_expired()

        await eventually(lambda: not place.listener._connections)


async def test_stopping_says_goodbye_to_everybody(place: Place, certificates: Certificates) -> None:
    place.handler.holds = True
    async with (
        connected(place.address, certificates.client_context()) as idle,
        connected(place.address, certificates.client_context()) as busy,
    ):
        await busy.send(request_bytes())
        await eventually(lambda: place.handler.held)

        await place.listener.stop()

        assert await ends(idle)
        assert await ends(busy)
        assert [outcome.is_complete for outcome in place.handler.outcomes] == [False]
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*place.address)


async def test_stopping_does_not_wait_for_who_takes_nothing(
    place: Place, certificates: Certificates
) -> None:
    place.handler.holds = True
    async with connected(place.address, certificates.client_context()) as client:
        client.stop_reading()
        await client.send(request_bytes())
        await eventually(lambda: place.handler.held)
        place.handler.held[0].send_response(200, [], b"x" * 30_000_000)

        async with asyncio.timeout(3):
            await place.listener.stop()

        await eventually(lambda: not place.listener._connections)


def deadlines(place: Place) -> list[float | None]:
    return [connection.deadline for connection in place.listener._connections]
