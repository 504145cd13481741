"""Places for requests: taken once, given back once, however the exchange ends."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from proxy.core.errors import TooManyRequests
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.userinfo import Caller, UserInfo
from proxy.serving.limits.max_in_flight import MaxInFlightLimiter, PerCallerLimit
from proxy.telemetry.metrics.serving import ServingMetrics
from proxy.wire.exchange import ClientExchange, ExchangeOutcome
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import status_line
from tests.serving.listening import Place, Receiver, held
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import HttpClient, connected, request_bytes
from tests.support.metric_values import metric_values

POD = "/api/v1/namespaces/a/pods/b"
UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def places(registry: CollectorRegistry) -> MaxInFlightLimiter:
    return MaxInFlightLimiter(reads=2, writes=1, counter=ServingMetrics(registry))


def rejected(registry: CollectorRegistry) -> dict[str, float]:
    """Return how many requests were rejected, by kind."""
    return metric_values(registry, "understudy_requests_rejected_total")


@pytest.fixture
async def clients(place: Place, certificates: Certificates) -> AsyncIterator[list[HttpClient]]:
    place.handler.holds = True
    context = certificates.client_context()
    async with (
        connected(place.address, context) as one,
        connected(place.address, context) as two,
        connected(place.address, context) as three,
    ):
        yield [one, two, three]


async def begin(
    place: Place, client: HttpClient, method: str, target: str, headers: object = None
) -> ClientExchange:
    """Send a request, and return it as the handler holds it."""
    before = len(place.handler.held)
    assert headers is None or isinstance(headers, list)
    await client.send(request_bytes(method, target, headers=headers))
    await held(place, before + 1)
    return place.handler.held[-1]


def enter(places: MaxInFlightLimiter, exchange: ClientExchange) -> None:
    enter_as("alice", places, exchange)


def enter_as(name: str, places: MaxInFlightLimiter, exchange: ClientExchange) -> None:
    request_info = parse_request_info(exchange.request.method, exchange.request.target)
    places.acquire(exchange, request_info, Caller(UserInfo(name)))


async def test_reads_and_writes_have_places_of_their_own(
    place: Place, clients: list[HttpClient], places: MaxInFlightLimiter, registry: CollectorRegistry
) -> None:
    for client in clients[:2]:
        enter(places, await begin(place, client, "GET", POD))
    third = await begin(place, clients[2], "GET", POD)

    with pytest.raises(TooManyRequests) as refused:
        enter(places, third)

    assert (refused.value.code, refused.value.retry_after_seconds) == (429, 1)
    assert (places.in_use, rejected(registry)) == ((2, 0), {"read": 1})
    third.send_response(429, [], b"")
    enter(places, await begin(place, clients[2], "PATCH", POD))
    assert (places.in_use, rejected(registry)) == ((2, 1), {"read": 1})


@pytest.mark.parametrize(
    ("method", "target", "taken"),
    [
        ("GET", POD, (1, 0)),
        ("HEAD", POD, (1, 0)),
        ("GET", "/api/v1/pods", (1, 0)),
        ("GET", "/version", (1, 0)),
        ("POST", "/api/v1/namespaces/a/pods", (0, 1)),
        ("PUT", POD, (0, 1)),
        ("PATCH", POD, (0, 1)),
        ("DELETE", POD, (0, 1)),
        ("DELETE", "/api/v1/namespaces/a/pods", (0, 1)),
        ("OPTIONS", POD, (0, 1)),
        ("HEAD", "/version", (0, 1)),
        ("GET", "/api/v1/pods?watch=1", (0, 0)),
        ("GET", "/api/v1/watch/pods", (0, 0)),
        ("GET", f"{POD}/log", (0, 0)),
        ("POST", f"{POD}/exec", (0, 0)),
        ("POST", "/api/v1/namespaces/a/services/b/proxy/c", (0, 0)),
    ],
)
async def test_what_takes_which_place(
    place: Place,
    clients: list[HttpClient],
    places: MaxInFlightLimiter,
    method: str,
    target: str,
    taken: tuple[int, int],
) -> None:
    exchange = await begin(place, clients[0], method, target)

    enter(places, exchange)
    assert places.in_use == taken
    exchange.send_response(200, [], b"")

    assert places.in_use == (0, 0)


async def test_an_upgrade_takes_no_place(
    place: Place, clients: list[HttpClient], places: MaxInFlightLimiter
) -> None:
    """Of a custom resource, say, whose name tells nothing."""
    target = "/apis/example.com/v1/namespaces/a/machines/b/console"

    enter(places, await begin(place, clients[0], "GET", target, UPGRADE))

    assert places.in_use == (0, 0)


@pytest.mark.parametrize(
    "end", ["answer", "abort", "break off", "goodbye", "vanish", "stop", "pipelined"]
)
async def test_a_place_is_given_back_however_the_exchange_ends(
    place: Place, clients: list[HttpClient], places: MaxInFlightLimiter, end: str
) -> None:
    client = clients[0]
    exchange = await begin(place, client, "GET", POD)
    enter(places, exchange)
    exchange.attach(Receiver())
    assert places.in_use == (1, 0)

    if end == "answer":
        exchange.send_response(200, [], b"")
    elif end == "abort":
        exchange.abort()
    elif end == "break off":
        exchange.start_response(200, status_line(200), CHUNKED)
        exchange.send(b"half")
        exchange.abort()
    elif end == "goodbye":
        await client.close()
    elif end == "vanish":
        client.vanish()
    elif end == "stop":
        await place.listener.stop()
    else:
        await client.send(request_bytes("GET", POD))
        exchange.send_response(200, [], b"")
        await held(place, 2)

    await eventually(lambda: places.in_use == (0, 0))
    # Whatever is still said about it changes nothing.
    exchange.abort()
    exchange.send_response(200, [], b"")
    assert places.in_use == (0, 0)


async def test_an_exchange_that_is_over_keeps_no_place(
    place: Place, clients: list[HttpClient], places: MaxInFlightLimiter
) -> None:
    exchange = await begin(place, clients[0], "GET", POD)
    clients[0].vanish()
    await eventually(lambda: not exchange.is_open)

    enter(places, exchange)

    assert places.in_use == (0, 0)


async def test_everybody_who_asked_hears_of_the_end_in_turn(
    place: Place, clients: list[HttpClient]
) -> None:
    heard: list[str] = []
    exchange = await begin(place, clients[0], "GET", POD)

    def fail(_outcome: ExchangeOutcome) -> None:
        heard.append("first")
        raise RuntimeError("a fault of one is not to be the other's")

    exchange.on_complete(fail)
    exchange.on_complete(lambda outcome: heard.append(f"second {outcome.status}"))
    with pytest.raises(RuntimeError):
        exchange.send_response(204, [], b"")

    assert heard == ["first", "second 204"]
    assert len(place.handler.outcomes) == 1


async def test_one_caller_leaves_places_for_others(
    place: Place, clients: list[HttpClient], registry: CollectorRegistry
) -> None:
    places = MaxInFlightLimiter(
        reads=4, writes=1, counter=ServingMetrics(registry), per_caller=PerCallerLimit(percent=25)
    )
    first = await begin(place, clients[0], "GET", POD)
    enter_as("alice", places, first)
    second = await begin(place, clients[1], "GET", POD)

    with pytest.raises(TooManyRequests) as refused:
        enter_as("alice", places, second)

    assert (refused.value.code, refused.value.retry_after_seconds) == (429, 1)
    assert (places.in_use, rejected(registry)) == ((1, 0), {"caller": 1})
    enter_as("bob", places, second)
    assert places.in_use == (2, 0)

    first.send_response(200, [], b"")
    second.send_response(200, [], b"")
    enter_as("alice", places, await begin(place, clients[0], "GET", POD))
    assert places.in_use == (1, 0)
    # What is small is not divided: nobody is locked out.
    enter_as("alice", places, await begin(place, clients[1], "PUT", POD))
    assert places.in_use == (1, 1)


async def test_long_running_requests_of_one_caller_may_have_a_limit(
    place: Place, clients: list[HttpClient], registry: CollectorRegistry
) -> None:
    places = MaxInFlightLimiter(
        reads=1,
        writes=1,
        counter=ServingMetrics(registry),
        per_caller=PerCallerLimit(long_running=1),
    )
    watch = await begin(place, clients[0], "GET", "/api/v1/pods?watch=1")
    enter_as("alice", places, watch)
    console = await begin(place, clients[1], "GET", "/apis/a.b/v1/machines/c/console", UPGRADE)

    with pytest.raises(TooManyRequests):
        enter_as("alice", places, console)

    enter_as("bob", places, console)
    watch.abort()
    enter_as("alice", places, await begin(place, clients[2], "GET", f"{POD}/log"))
    assert (places.in_use, rejected(registry)) == ((0, 0), {"caller": 1})


async def test_those_who_have_left_take_no_memory_and_those_who_stay_are_known(
    place: Place, clients: list[HttpClient], registry: CollectorRegistry
) -> None:
    places = MaxInFlightLimiter(
        reads=4, writes=1, counter=ServingMetrics(registry), per_caller=PerCallerLimit(percent=25)
    )
    enter_as("alice", places, await begin(place, clients[0], "GET", POD))
    for number in range(3000):
        exchange = await begin(place, clients[1], "GET", POD)
        enter_as(f"caller-{number}", places, exchange)
        exchange.send_response(200, [], b"")
        await clients[1].read_response()

    assert len(places._reads.callers) <= 1025
    with pytest.raises(TooManyRequests):
        enter_as("alice", places, await begin(place, clients[2], "GET", POD))


async def test_limits_may_change_and_whoever_has_a_place_keeps_it(
    place: Place, clients: list[HttpClient], places: MaxInFlightLimiter
) -> None:
    enter_as("alice", places, await begin(place, clients[0], "GET", POD))
    places.set_limits(reads=2, writes=0, per_caller=PerCallerLimit(percent=50))
    second = await begin(place, clients[1], "GET", POD)

    with pytest.raises(TooManyRequests):
        enter_as("alice", places, second)

    enter_as("bob", places, second)
    assert places.in_use == (2, 0)
