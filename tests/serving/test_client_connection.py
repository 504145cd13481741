"""One client connection: requests one at a time, in order, each with its own answer and end."""

import asyncio
from typing import cast

import pytest

from proxy.serving.client_connection import ClientConnection
from proxy.wire.http1.body import CHUNKED
from proxy.wire.http1.message import MAX_HEAD_BYTES, status_line
from tests.serving.listening import Place, Receiver, held
from tests.support.certificates import Certificates
from tests.support.event_loops import eventually
from tests.support.http_client import Cut, HttpClient, connected, request_bytes

# --- requests ----------------------------------------------------------------------------------


async def test_requests_follow_each_other_on_one_connection(
    place: Place, client: HttpClient
) -> None:
    bodies = [(await client.request(target=f"/{number}")).body for number in range(5)]

    assert bodies == [b"/0", b"/1", b"/2", b"/3", b"/4"]
    assert len(place.listener._connections) == 1


async def test_pipelined_requests_are_answered_in_order_one_at_a_time(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    await client.send(b"".join(request_bytes(target=f"/{number}") for number in range(3)))
    for number in range(3):
        await held(place, number + 1)
        place.handler.held[number].send_response(200, [], b"%d" % number)

    assert [(await client.read_response()).body for _ in range(3)] == [b"0", b"1", b"2"]


async def test_thousands_of_pipelined_requests_do_not_deepen_the_stack(
    place: Place, client: HttpClient
) -> None:
    await client.send(request_bytes(target="/a") * 5000)

    for _ in range(5000):
        assert (await client.read_response()).body == b"/a"


async def test_who_sends_thousands_of_requests_at_once_lets_others_have_their_turn(
    place: Place, client: HttpClient
) -> None:
    served_a_turn: list[int] = []

    async def count_turns() -> None:
        while True:
            before = len(place.handler.targets)
            await asyncio.sleep(0)
            served_a_turn.append(len(place.handler.targets) - before)

    counting = asyncio.ensure_future(count_turns())
    await client.send(request_bytes(target="/a") * 2000)
    await eventually(lambda: len(place.handler.targets) == 2000)
    counting.cancel()

    # Two helpings at the most: the loop may take one up while it still has another to serve.
    assert max(served_a_turn) <= 2 * 16


@pytest.mark.parametrize(
    ("start", "status"),
    [(b"GET /a?", 414), (b"GET /a HTTP/1.1\r\nHost: a\r\nX-Line: ", 431)],
    ids=["target", "header line"],
)
async def test_unfinished_head_is_refused_once_one_of_its_lines_is_too_long(
    place: Place, client: HttpClient, start: bytes, status: int
) -> None:
    # The end of the head is never sent.
    await client.send(start + b"a" * 256 * 1024)

    assert (await client.read_response()).status == status
    assert await client.read_to_end() == b""
    assert place.budget.used_bytes < 8192  # the client's certificate
    assert place.handler.targets == []


async def test_unfinished_head_with_short_lines_is_waited_for(
    place: Place, client: HttpClient
) -> None:
    line = b"X-Line: " + b"a" * 100_000 + b"\r\n"
    await client.send(b"GET /long HTTP/1.1\r\nHost: a\r\n" + line * 9)
    await client.send(b"\r\n")

    assert (await client.read_response()).body == b"/long"


async def test_query_of_an_exec_may_fill_a_head(place: Place, client: HttpClient) -> None:
    target = "/api/v1/namespaces/n/pods/p/exec?command=" + "a" * 900_000
    request = request_bytes("POST", target)
    await client.send(request[:500_000])
    await client.send(request[500_000:])

    assert (await client.read_response()).status == 200
    assert place.handler.targets == [target.encode()]


async def test_a_request_may_come_byte_by_byte(place: Place, client: HttpClient) -> None:
    for byte in request_bytes(target="/slow"):
        await client.send(bytes([byte]))

    assert (await client.read_response()).body == b"/slow"


async def test_after_close_nothing_more_is_served(place: Place, client: HttpClient) -> None:
    first = request_bytes(target="/first", headers=[("Connection", "close")])

    await client.send(first + request_bytes("DELETE", "/second"))

    answer = await client.read_response()
    assert answer.body == b"/first"
    assert answer.values("connection") == ["close"]
    assert await client.read_to_end() == b""
    assert place.handler.targets == [b"/first"]


async def test_a_last_response_survives_what_the_client_sends_after_it(
    place: Place, client: HttpClient
) -> None:
    """Bytes that meet a closed socket would reset the connection, and the response with it."""
    await client.send(request_bytes(target="/last", headers=[("Connection", "close")]))
    await eventually(lambda: bool(place.handler.outcomes))
    for _ in range(20):
        await asyncio.sleep(0.005)
        await client.send(b"too late")

    assert (await client.read_response()).body == b"/last"
    assert await client.read_to_end() == b""


async def test_after_a_request_that_was_broken_off_nothing_more_is_served(
    place: Place, client: HttpClient
) -> None:
    place.handler.breaks = True

    await client.send(request_bytes(target="/first") + request_bytes("DELETE", "/second"))

    with pytest.raises(Cut):
        await client.read_to_end()
    assert place.handler.targets == [b"/first"]


async def test_an_http_1_0_client_gets_one_answer(place: Place, client: HttpClient) -> None:
    await client.send(b"GET /old HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")

    answer = await client.read_response()

    assert answer.body == b"/old"
    assert answer.values("connection") == ["close"]
    assert await client.read_to_end() == b""


@pytest.mark.parametrize("end", ["evicted", "stopped"])
async def test_body_that_the_connection_delimits_does_not_look_complete_when_it_is_cut(
    place: Place, client: HttpClient, end: str
) -> None:
    place.handler.holds = True
    await client.send(b"GET /old HTTP/1.0\r\nHost: a\r\n\r\n")
    await held(place)
    place.handler.held[0].start_response(200, status_line(200), CHUNKED)
    place.handler.held[0].send(b"half")
    assert (await client.read_head()).status == 200
    assert await client.read_exactly(4) == b"half"
    (connection,) = place.listener.connections

    if end == "evicted":
        connection.evict()
    else:
        await place.listener.stop()

    with pytest.raises(Cut):
        await client.read_to_end()


async def test_idle_connection_is_evicted_with_a_goodbye(place: Place, client: HttpClient) -> None:
    assert (await client.request()).status == 200

    place.listener.connections[0].evict()

    assert await client.read_to_end() == b""


async def test_the_certificate_and_the_address_are_told(place: Place, client: HttpClient) -> None:
    place.handler.holds = True
    await client.send(request_bytes())
    await held(place)

    peer = place.handler.held[0].peer

    assert peer.address == "127.0.0.1"
    assert b"alice" in peer.chain[0]


async def test_a_malformed_head_is_answered_and_ends_the_connection(
    place: Place, client: HttpClient
) -> None:
    await client.send(b"GET / HTTP/1.1\r\nBad Name: x\r\n\r\n" + request_bytes("DELETE", "/second"))

    answer = await client.read_response()

    assert answer.status == 400
    assert answer.values("connection") == ["close"]
    assert await client.read_to_end() == b""
    assert place.handler.targets == []


async def test_an_endless_head_is_a_431_that_the_sender_gets_to_see(
    place: Place, client: HttpClient
) -> None:
    await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
    for _ in range(20):
        await client.send(b"X: " + b"x" * 100_000 + b"\r\n")

    answer = await client.read_response()

    assert answer.status == 431
    assert await client.read_to_end() == b""
    assert place.handler.targets == []


async def test_a_head_of_the_largest_size_is_served(place: Place, client: HttpClient) -> None:
    lines = [("X-Line", "x" * 100_000)] * 10
    small = request_bytes(target="/big", headers=[*lines, ("X", "")])
    filler = "x" * (MAX_HEAD_BYTES - len(small))

    answer = await client.request(target="/big", headers=[*lines, ("X", filler)])
    assert answer.body == b"/big"

    answer = await client.request(target="/big", headers=[*lines, ("X", filler + "x")])
    assert answer.status == 431


# --- bodies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_body_that_came_early_is_delivered_with_what_follows(
    place: Place, client: HttpClient, framing: str
) -> None:
    place.handler.holds = True
    receiver = Receiver()
    if framing == "length":
        head, rest = b"Content-Length: 10\r\n\r\nhello", b"world"
    else:
        head, rest = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello", b"\r\n5\r\nworld\r\n0\r\n\r\n"
    await client.send(b"PUT /a HTTP/1.1\r\nHost: a\r\n" + head)
    await held(place)

    place.handler.held[0].attach(receiver)
    assert receiver.body in {b"", b"hello"}
    await client.send(rest + request_bytes(target="/next"))
    await eventually(lambda: receiver.heard)

    assert (receiver.body, receiver.heard) == (b"helloworld", ["ended"])
    place.handler.held[0].send_response(200, [], b"")
    await client.read_response()
    await held(place, 2)
    assert place.handler.targets == [b"/a", b"/next"]


@pytest.mark.parametrize("is_slow", [False, True], ids=["well", "slow"])
async def test_of_a_request_without_a_body_nothing_is_told_but_the_clients_pace(
    place: Place, client: HttpClient, is_slow: object
) -> None:
    place.handler.holds = True
    receiver = Receiver()
    await client.send(request_bytes("POST", headers=[("Content-Length", "0")]))
    await held(place)
    (connection,) = place.listener._connections
    connection.is_write_blocked = bool(is_slow)

    place.handler.held[0].attach(receiver)

    assert (receiver.body, receiver.heard) == (b"", ["pause"] if is_slow else [])


async def test_a_body_nobody_takes_waits_in_bounded_memory(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    receiver = Receiver()
    size = 30_000_000
    sending = asyncio.ensure_future(client.send(request_bytes("PUT", body=b"x" * size)))
    await held(place)
    (connection,) = place.listener._connections
    await eventually(lambda: len(connection._heads.buffer) > 64 * 1024)
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert not sending.done()
    assert len(connection._heads.buffer) < 1024 * 1024

    place.handler.held[0].attach(receiver)
    await eventually(lambda: receiver.heard == ["ended"], seconds=20)

    await sending
    assert len(receiver.body) == size


async def test_a_body_its_receiver_is_too_slow_for_waits_at_the_client(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    receiver = Receiver()
    sending = asyncio.ensure_future(client.send(request_bytes("PUT", body=b"x" * 30_000_000)))
    await held(place)
    exchange = place.handler.held[0]
    receiver.on_data = exchange.pause_request
    exchange.attach(receiver)
    await eventually(lambda: receiver.body)
    taken = len(receiver.body)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(receiver.body) == taken
    assert taken < 1024 * 1024

    receiver.on_data = lambda: None
    exchange.resume_request()

    await eventually(lambda: receiver.heard == ["ended"], seconds=20)
    await sending


async def test_a_malformed_body_is_told_to_who_takes_it(place: Place, client: HttpClient) -> None:
    place.handler.holds = True
    receiver = Receiver()
    await client.send(
        b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\noops\r\n"
    )
    await held(place)

    place.handler.held[0].attach(receiver)
    await eventually(lambda: receiver.heard)

    assert receiver.heard == ["failed 400"]
    place.handler.held[0].send_response(400, [], b"bad body")
    assert (await client.read_response()).values("connection") == ["close"]
    assert await client.read_to_end() == b""


async def test_who_is_answered_before_its_body_is_read_gets_the_answer_and_no_reset(
    place: Place, client: HttpClient
) -> None:
    """A reset would make the client lose the answer while it still sends."""
    head = b"PUT /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n"

    await client.send(head + b"x" * 100_000)
    await eventually(lambda: place.handler.outcomes)
    for _ in range(20):
        await client.send(b"x" * 100_000)
        await asyncio.sleep(0.005)

    answer = await client.read_response()
    assert answer.body == b"/refused"
    assert answer.values("connection") == ["close"]
    assert await client.read_to_end() == b""
    assert place.handler.targets == [b"/refused"]


async def test_the_client_is_told_to_continue_once_it_is_admitted(
    place: Place, client: HttpClient
) -> None:
    place.handler.holds = True
    headers = [("Expect", "100-continue"), ("Content-Length", "5")]
    await client.send(request_bytes("PUT", headers=headers))
    await held(place)
    assert place.handler.held[0].request.expects_continue

    place.handler.held[0].send_continue()

    assert (await client.read_head()).status == 100


@pytest.mark.parametrize("first", range(1, 8))
async def test_a_head_may_begin_with_any_few_bytes(
    place: Place, client: HttpClient, first: int
) -> None:
    """Three bytes without an end were once taken for a whole head."""
    whole = request_bytes(target="/api")

    await client.send(whole[:first])
    await asyncio.sleep(0.01)
    await client.send(whole[first:])

    assert (await client.read_response()).status == 200


# --- clients that do not read --------------------------------------------------------------------

LONG_HEAD = request_bytes(headers=[("X", "x" * 1000)])


async def block(place: Place, client: HttpClient, *, with_next: bytes) -> ClientConnection:
    """Send requests and read nothing, until answers pile up; return the connection."""
    place.handler.authenticates, place.handler.body = False, bytes(300_000)
    (connection,) = place.listener.connections
    client.stop_reading()
    async with asyncio.timeout(10):
        while not connection.is_write_blocked:
            served = len(place.handler.targets)
            await client.send(request_bytes() + with_next)
            await eventually(
                lambda: len(place.handler.targets) > served or connection.is_write_blocked  # noqa: B023 - awaited
            )
    return connection


async def test_client_that_reads_nothing_is_not_read_from(place: Place, client: HttpClient) -> None:
    assert (await client.request()).status == 200
    (connection,) = place.listener.connections

    # As the event loop does after a turn, when what was answered in it does not fit the socket.
    connection.pause_writing()
    assert not connection._is_reading

    connection.resume_writing()
    assert (await client.request()).status == 200


async def test_unread_answers_count_with_the_requests_behind_them(
    place: Place, client: HttpClient
) -> None:
    connection = await block(place, client, with_next=LONG_HEAD * 60)
    transport = connection._transport
    assert transport is not None
    assert len(connection._heads.buffer) > 10_000

    kept = transport.get_write_buffer_size() + 2 * len(connection._heads.buffer)
    assert place.budget.used_bytes >= kept

    before, data = place.budget.used_bytes, LONG_HEAD * 20
    connection.plaintext_received(data)
    assert place.budget.used_bytes >= before + 2 * len(data)


async def test_unread_answers_count_until_the_connection_is_lost(
    place: Place, client: HttpClient
) -> None:
    connection = await block(place, client, with_next=b"")
    transport = connection._transport
    assert transport is not None

    connection.close()
    assert place.budget.used_bytes >= transport.get_write_buffer_size() > 0

    connection.expire()
    await eventually(lambda: place.budget.used_bytes == 0)


async def test_client_that_reads_again_is_served_and_nothing_is_counted(
    place: Place, client: HttpClient, certificates: Certificates
) -> None:
    async with connected(place.address, certificates.client_context(None)) as nobody:
        await client.close()
        await eventually(lambda: len(place.listener.connections) == 1)
        connection = await block(place, nobody, with_next=b"")
        count = len(place.handler.targets)
        cast("asyncio.Transport", nobody._writer.transport).resume_reading()

        for _ in range(count):
            assert (await nobody.read_response()).status == 200
        assert (await nobody.request()).status == 200

        assert not connection.is_write_blocked
        assert place.budget.used_bytes == 0
