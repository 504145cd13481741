"""The answer to one request: its framing, its end, and how a cut shows."""

import asyncio
from collections.abc import Sequence

import pytest

from proxy.core.http.headers import Header
from proxy.serving.exchange import ServerExchange
from proxy.wire.exchange import ANY_STATUS, ExchangeOutcome, RequestBodyHandler
from proxy.wire.http1.body import CHUNKED, NO_BODY, UNTIL_CLOSE, BodyFraming, BodyKind
from proxy.wire.http1.message import status_line
from proxy.wire.http1.raw_chunks import RawChunkReader
from tests.serving.listening import Place, Receiver, held
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient, request_bytes

OK = status_line(200)
THREE_BYTES = BodyFraming(BodyKind.LENGTH, 3)


async def test_an_answer_of_unknown_length_is_chunked_and_the_connection_goes_on(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    for framing in (CHUNKED, UNTIL_CLOSE):
        place.handler.held.clear()
        await client.send(request_bytes())
        await held(place)
        exchange = place.handler.held[0]
        exchange.start_response(200, OK, framing)
        exchange.send(b"one")
        exchange.send(b"two")
        exchange.end()

        answer = await client.read_response()

        assert answer.values("transfer-encoding") == ["chunked"]
        assert answer.body == b"onetwo"
        assert answer.values("connection") == []


@pytest.mark.parametrize("framing", [CHUNKED, UNTIL_CLOSE], ids=["chunked", "until close"])
async def test_for_http_1_0_an_answer_of_unknown_length_ends_with_the_connection(
    place: Place, client: HttpClient, framing: object
) -> None:
    place.handler.holds = True
    await client.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
    await held(place)
    exchange = place.handler.held[0]
    exchange.start_response(200, OK, CHUNKED if framing is CHUNKED else UNTIL_CLOSE)
    exchange.send(b"one")
    exchange.end()

    answer = await client.read_response()

    assert answer.values("transfer-encoding") == []
    assert answer.body == b"one"
    assert client.ended_with_goodbye


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_broken_answer_never_looks_complete(
    place: Place, client: HttpClient, version: str
) -> None:
    place.handler.holds = True
    await client.send(f"GET / HTTP/{version}\r\nHost: a\r\n\r\n".encode())
    await held(place)
    exchange = place.handler.held[0]
    exchange.start_response(200, OK, CHUNKED)
    exchange.send(b"half")
    exchange.abort()

    with pytest.raises(Cut) as cut:
        await client.read_response()

    assert cut.value.received == b"half"
    assert not client.ended_with_goodbye
    assert [outcome.is_complete for outcome in place.handler.outcomes] == [False]


async def test_an_answer_to_head_has_a_length_and_no_body(place: Place, client: HttpClient) -> None:
    answers = [await client.request(method, "/abc") for method in ("HEAD", "GET")]

    assert [answer.values("content-length") for answer in answers] == [["4"], ["4"]]
    assert [answer.body for answer in answers] == [b"", b"/abc"]


async def test_an_answer_without_a_body_has_no_framing(place: Place, client: HttpClient) -> None:
    place.handler.holds = True
    await client.send(request_bytes())
    await held(place)
    place.handler.held[0].start_response(204, status_line(204) + b"X: y\r\n", NO_BODY)
    place.handler.held[0].end()

    answer = await client.read_response()

    assert (answer.status, answer.headers) == (204, [("X", "y")])


async def test_a_late_word_of_an_old_exchange_is_not_heard(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    await client.send(request_bytes() * 2)
    await held(place)
    old = place.handler.held[0]
    old.send_response(200, [], b"first")
    await held(place, 2)

    old.send(b"late")
    old.end()
    old.abort()
    old.send_response(500, [], b"late")
    place.handler.held[1].send_response(200, [], b"second")

    assert (await client.read_response()).body == b"first"
    assert (await client.read_response()).body == b"second"
    assert len(place.handler.outcomes) == 2


async def test_the_source_is_paused_while_the_client_takes_nothing(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    receiver = Receiver()
    await client.send(request_bytes())
    await held(place)
    exchange = place.handler.held[0]
    exchange.attach(receiver)
    exchange.start_response(200, OK, CHUNKED)
    while "pause" not in receiver.heard:
        exchange.send(b"x" * 100_000)
        await asyncio.sleep(0)

    head = await client.read_head()
    reading = asyncio.ensure_future(client._read_chunks())
    await eventually(lambda: receiver.heard[-1] == "resume")
    exchange.end()

    assert head.status == 200
    assert set(await reading) == {ord("x")}


async def test_who_takes_no_answers_is_asked_for_no_more_requests(
    place: Place, client: HttpClient
) -> None:
    """Else a client could fill our memory with answers by sending small requests alone."""
    count = 400
    place.handler.body = b"x" * 100_000

    await client.send(request_bytes() * count)
    (connection,) = place.listener._connections
    await eventually(lambda: connection.is_write_blocked)
    assert connection._transport is not None
    assert connection._transport.get_write_buffer_size() < 1_000_000

    for _ in range(count):
        assert len((await client.read_response()).body) == 100_000
    assert len(place.handler.targets) == count


async def test_a_goodbye_is_heard_though_the_client_takes_nothing_any_more(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    receiver = Receiver()
    client.stop_reading()
    await client.send(request_bytes())
    await held(place)
    exchange = place.handler.held[0]
    exchange.attach(receiver)
    exchange.start_response(200, OK, CHUNKED)
    exchange.send(b"x" * 30_000_000)

    await client.say_goodbye()

    await eventually(lambda: receiver.heard[-1] == "gone")
    assert len(place.listener._connections) == 1


@pytest.mark.parametrize("leave", ["goodbye", "vanish", "half-close"])
@pytest.mark.parametrize("is_taken", [False, True], ids=["undecided", "taken"])
async def test_whoever_works_for_a_client_hears_that_it_has_left(
    place: Place, client: HttpClient, leave: str, is_taken: object
) -> None:
    place.handler.holds = True
    receiver = Receiver()
    await client.send(request_bytes())
    await held(place)
    exchange = place.handler.held[0]
    exchange.on_disconnect(lambda: receiver.heard.append("gone before it was taken"))
    if is_taken:
        exchange.attach(receiver)

    if leave == "goodbye":
        await client.close()
    elif leave == "vanish":
        client.vanish()
    else:
        client._writer.write_eof()

    expected = ["gone"] if is_taken else ["gone before it was taken"]
    await eventually(lambda: receiver.heard == expected)
    assert not exchange.is_open
    assert [outcome.is_complete for outcome in place.handler.outcomes] == [False]
    exchange.send_response(200, [], b"too late")


async def test_what_goes_out_with_the_head_is_framed_and_counted_like_the_rest(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    await client.send(request_bytes())
    await held(place)
    exchange = place.handler.held[0]
    outcomes: list[ExchangeOutcome] = []
    exchange.on_complete(outcomes.append)

    exchange.start_response(200, OK, CHUNKED, payload=b"one")
    exchange.send(b"two")
    exchange.end()

    assert (await client.read_response()).body == b"onetwo"
    assert outcomes == [ExchangeOutcome(200, 6, is_complete=True)]


class Observer:
    """Hears what passes, as long as it wants to."""

    def __init__(self, *, wants_all: bool) -> None:
        self._wants_all = wants_all
        self.wants_head = True
        self.heard: list[object] = []
        self.receivers: list[object] = []

    def tee(self, receiver: RequestBodyHandler) -> RequestBodyHandler:
        self.receivers.append(receiver)
        return receiver

    def wants_response(self, status: int) -> bool:
        return self.wants_head or self._wants_all

    @property
    def captured_from_status(self) -> int:
        return 0 if self._wants_all else ANY_STATUS

    def response_started(self, status: int, headers: Sequence[Header], payload: bytes) -> bool:
        self.heard.append((status, payload))
        return self._wants_all

    def response_data(self, payload: bytes) -> None:
        self.heard.append(payload)


@pytest.mark.parametrize("wants_all", [True, False])
async def test_who_observes_hears_the_answer_as_far_as_it_wants_and_changes_nothing(
    place: Place, client: HttpClient, wants_all: object
) -> None:
    place.handler.holds = True
    await client.send(request_bytes())
    await held(place)
    exchange, observer = place.handler.held[0], Observer(wants_all=bool(wants_all))
    exchange.set_observer(observer)
    receiver = Receiver()
    exchange.attach(receiver)

    exchange.start_response(200, OK, CHUNKED, payload=b"one")
    exchange.send(b"two")
    exchange.end()
    answer = await client.read_response()

    assert answer.body == b"onetwo"
    assert observer.heard == [(200, b"one"), *([b"two"] if wants_all else [])]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json;stream=watch\r\n"


@pytest.mark.parametrize("is_observed", [False, True], ids=["alone", "observed"])
async def test_chunks_in_their_frames_are_sent_as_they_are_and_counted_by_who_reads_them(
    place: Place, client: HttpClient, is_observed: object
) -> None:
    place.handler.holds = True
    await client.send(request_bytes())
    await held(place)
    exchange, observer = place.handler.held[0], Observer(wants_all=False)
    outcomes: list[ExchangeOutcome] = []
    exchange.on_complete(outcomes.append)
    exchange.set_observer(observer if is_observed else None)
    exchange.mark_stream()
    chunks = RawChunkReader()
    assert isinstance(exchange, ServerExchange)
    assert exchange.raw_chunks_below == ANY_STATUS

    exchange.start_response(200, HEAD, chunks, chunks.feed(b"4\r\none\n\r\n")[0])
    assert (exchange.body_bytes, exchange.is_between_lines) == (4, True)
    exchange.send(chunks.feed(b"6\r\ntwo\nth\r\n")[0])
    assert (exchange.body_bytes, exchange.is_between_lines) == (10, False)
    exchange.send(chunks.feed(b"4\r\nree\n\r\n")[0])
    exchange.end()

    head = await client.read_head()
    assert head.values("transfer-encoding") == ["chunked"]
    sent = await client.read_until(b"0\r\n\r\n")
    assert sent == b"4\r\none\n\r\n6\r\ntwo\nth\r\n4\r\nree\n\r\n0\r\n\r\n"
    assert outcomes == [ExchangeOutcome(200, 14, is_complete=True)]
    assert observer.heard == ([(200, b"")] if is_observed else [])


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_chunks_are_unframed_for_who_knows_none_and_for_who_hears_them(
    place: Place, client: HttpClient, version: str
) -> None:
    place.handler.holds = True
    await client.send(f"GET / HTTP/{version}\r\nHost: a\r\n\r\n".encode())
    await held(place)
    exchange = place.handler.held[0]

    assert exchange.raw_chunks_below == (ANY_STATUS if version == "1.1" else 0)
    exchange.set_observer(Observer(wants_all=True))
    assert exchange.raw_chunks_below == 0
    exchange.send_response(200, [], b"")


@pytest.mark.parametrize("wants_all", [True, False])
async def test_a_whole_answer_is_sent_as_it_is_and_told_to_who_wants_it(
    place: Place, client: HttpClient, wants_all: object
) -> None:
    place.handler.holds = True
    outcomes: list[ExchangeOutcome] = []
    await client.send(request_bytes())
    await held(place)
    exchange, observer = place.handler.held[0], Observer(wants_all=bool(wants_all))
    observer.wants_head = False
    exchange.set_observer(observer)
    exchange.on_complete(outcomes.append)

    lines = OK + b"X-A: b\r\nContent-Length: 3\r\n"
    exchange.start_response(200, lines, THREE_BYTES, b"one", is_complete=True)
    answer = await client.read_response()

    assert (answer.status, answer.body) == (200, b"one")
    assert outcomes == [ExchangeOutcome(200, 3, is_complete=True)]
    assert observer.heard == ([(200, b"one")] if wants_all else [])
    assert not exchange.is_open
    exchange.start_response(200, lines, THREE_BYTES, b"two", is_complete=True)
    await client.send(request_bytes())
    await held(place, 2)


@pytest.mark.parametrize("is_raw", [False, True], ids=["framed", "raw"])
async def test_a_whole_chunked_answer_is_sent_with_its_end_in_one_write(
    place: Place, client: HttpClient, is_raw: object
) -> None:
    place.handler.holds = True
    await client.send(request_bytes() * 2)
    await held(place)
    exchange = place.handler.held[0]
    outcomes: list[ExchangeOutcome] = []
    exchange.on_complete(outcomes.append)
    chunks = RawChunkReader()
    framing, payload = (
        (chunks, chunks.feed(b"3\r\none\r\n0\r\n\r\n")[0]) if is_raw else (CHUNKED, b"one")
    )

    exchange.start_response(200, OK, framing, payload, is_complete=True)
    exchange.send(b"late")
    await held(place, 2)
    place.handler.held[1].send_response(200, [], b"second")

    assert (await client.read_response()).body == b"one"
    assert (await client.read_response()).body == b"second"
    assert outcomes == [ExchangeOutcome(200, 3, is_complete=True)]


async def test_a_whole_answer_of_a_connection_that_ends_says_so(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    await client.send(request_bytes(headers=[("Connection", "close")]))
    await held(place)

    lines = OK + b"Content-Length: 3\r\n"
    place.handler.held[0].start_response(200, lines, THREE_BYTES, b"one", is_complete=True)
    answer = await client.read_response()

    assert answer.body == b"one"
    assert answer.values("connection") == ["close"]


async def test_who_observes_hears_that_a_tunnel_opens_and_nothing_of_what_is_in_it(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
    await client.send(request_bytes(headers=upgrade))
    await held(place)
    exchange, observer = place.handler.held[0], Observer(wants_all=False)
    exchange.set_observer(observer)

    exchange.switch_protocols(status_line(101))
    exchange.send(b"secret")

    assert observer.heard == [(101, b"")]
