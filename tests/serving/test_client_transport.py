"""A client from the door to its leaving."""

from proxy.serving.limits.connections import ConnectionLimits
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import status_line
from tests.serving.listening import Place, held, listening
from tests.support.certificates import Certificates, new_certificates
from tests.support.dead_peers import go_silent
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes


async def test_another_context_meets_newcomers_and_disturbs_nobody(
    place: Place, client: HttpClient, certificates: Certificates
) -> None:
    """Whom a certificate stands for is decided with each request, so nobody has to leave."""
    assert (await client.request()).status == 200
    others = new_certificates()

    place.listener.set_tls_context(others.listening_context())

    assert (await client.request()).status == 200
    async with connected(place.address, others.client_context()) as newcomer:
        assert (await newcomer.request()).status == 200


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
            exchange.start_response(200, status_line(200), CHUNKED)
            exchange.send(b"x" * 30_000_000)

        def is_let_go() -> bool:
            place.listener.close_unreachable()
            return not place.handler.held[0].is_open

        await eventually(is_let_go, seconds=20)

        assert [outcome.is_complete for outcome in place.handler.outcomes] == [False]
        assert place.handler.held[1].is_open
