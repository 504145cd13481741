"""A client from the door to its leaving: what becomes of it when its certificate is in doubt."""

import asyncio
import ssl

import pytest

from proxy.serving.limits import ConnectionLimits
from proxy.wire.body import CHUNKED
from tests.serving.listening import Place, held, listening
from tests.support.certificates import Certificates
from tests.support.dead_peers import go_silent
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient, connected, request_bytes


async def ends(client: HttpClient) -> bool:
    """Wait for the server to close, and tell whether it did so with a goodbye and nothing else."""
    async with asyncio.timeout(10):
        return await client.read_to_end() == b""


def change_trust(place: Place, *, keeps_trust: bool) -> None:
    place.listener.use(place.listener._context, keeps_trust=keeps_trust)


async def test_an_idle_connection_with_a_certificate_in_doubt_is_closed_at_once(
    place: Place, client: HttpClient
) -> None:
    assert (await client.request()).status == 200

    change_trust(place, keeps_trust=False)

    assert await ends(client)


async def test_without_doubt_nobody_is_disturbed(place: Place, client: HttpClient) -> None:
    assert (await client.request()).status == 200

    change_trust(place, keeps_trust=True)

    assert (await client.request()).status == 200


async def test_without_a_certificate_there_is_nothing_to_doubt(
    place: Place, certificates: Certificates
) -> None:
    async with connected(place.address, certificates.client_context()) as client:
        assert (await client.request()).status == 200

        change_trust(place, keeps_trust=False)

        assert (await client.request()).status == 200


@pytest.mark.parametrize("has_started", [False, True], ids=["undecided", "answer begun"])
async def test_what_is_being_served_goes_on_and_nothing_after_it(
    place: Place, client: HttpClient, has_started: object
) -> None:
    place.handler.holds = True
    await client.send(request_bytes(target="/first") + request_bytes("DELETE", "/second"))
    await held(place)
    exchange = place.handler.held[0]
    if has_started:
        exchange.start(200, [], CHUNKED)
        exchange.send(b"one")

    change_trust(place, keeps_trust=False)
    if not has_started:
        exchange.start(200, [], CHUNKED)
        exchange.send(b"one")
    exchange.send(b"two")
    exchange.end()

    answer = await client.read_response()
    assert answer.body == b"onetwo"
    assert answer.values("connection") == ([] if has_started else ["close"])
    assert await ends(client)
    assert place.handler.targets == [b"/first"]


@pytest.mark.parametrize("user", ["alice", None], ids=["a certificate", "no certificate"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_handshake_under_the_old_trust_ends_with_doubt(
    place: Place, certificates: Certificates, user: str | None, version: ssl.TLSVersion
) -> None:
    context = certificates.client_context(user)
    context.minimum_version = context.maximum_version = version
    async with connected(place.address) as client:
        await eventually(lambda: place.listener._connections)
        change_trust(place, keeps_trust=False)

        served = await is_served(client, context)

    assert served is (user is None)
    assert place.handler.targets == ([b"/x"] if user is None else [])


async def is_served(client: HttpClient, context: ssl.SSLContext) -> bool:
    try:
        await client.shake_hands(context)
        await client.send(request_bytes(target="/x"))
        await client.read_head()
    except (Cut, ConnectionError):  # in the handshake, or after it
        return False
    return True


async def test_an_unfinished_head_is_no_request(place: Place, client: HttpClient) -> None:
    await client.send(b"GET / HTT")
    await eventually(lambda: place.listener._shared.heads.held_bytes)

    change_trust(place, keeps_trust=False)

    assert await ends(client)
    assert place.handler.targets == []


async def test_a_client_that_answers_nothing_is_let_go(certificates: Certificates) -> None:
    limits = ConnectionLimits(unreachable_seconds=1)
    async with (
        listening(certificates, limits) as place,
        connected(place.address, certificates.client_context()) as client,
        connected(place.address, certificates.client_context()) as slow,
    ):
        place.handler.holds = True
        for number, each in enumerate((client, slow), start=1):
            await each.send(request_bytes())
            await held(place, number)
        slow.stop_reading()
        go_silent(client.socket)
        for exchange in place.handler.held:
            exchange.start(200, [], CHUNKED)
            exchange.send(b"x" * 30_000_000)

        def is_let_go() -> bool:
            place.listener.close_unreachable()
            return not place.handler.held[0].is_open

        await eventually(is_let_go, seconds=20)

        assert [outcome.is_complete for outcome in place.handler.outcomes] == [False]
        assert place.handler.held[1].is_open
