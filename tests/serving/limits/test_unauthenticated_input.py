"""Input before authentication has a slice of each loop iteration, shared round-robin."""

import asyncio
import socket
import ssl
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise

import pytest

from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.limits.handshakes import CERTIFICATE, EVICTED
from proxy.serving.limits.unauthenticated_input import UnauthenticatedInputScheduler
from tests.serving.listening import Place, listening
from tests.support.certificates import Certificates
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually
from tests.support.handshake_flood import Flood
from tests.support.http_client import connected

FLOODER = "127.0.0.9"


class Worker:
    """Steps that take a millisecond each."""

    def __init__(self, slice_seconds: float) -> None:
        self.clock = FakeClock()
        self.turns = UnauthenticatedInputScheduler(slice_seconds, self.clock)
        self.done: list[str] = []

    def step(self, name: str) -> None:
        def work() -> None:
            self.clock.advance(0.001)
            self.done.append(name)

        if self.turns.has_time:
            started = self.turns.start_step()
            work()
            self.turns.end_step(started)
        else:
            self.turns.enqueue(name[0], work)


async def test_what_fits_the_slice_is_done_at_once_and_the_rest_in_the_next_turns() -> None:
    worker = Worker(0.0015)

    for number in range(5):
        worker.step(f"a{number}")

    assert worker.done == ["a0", "a1"]
    await asyncio.sleep(0)
    assert worker.done == ["a0", "a1", "a2", "a3"]
    await asyncio.sleep(0)
    assert worker.done == ["a0", "a1", "a2", "a3", "a4"]


async def test_addresses_take_turns() -> None:
    worker = Worker(0.001)

    for number in range(100):
        worker.step(f"a{number}")
    worker.step("b0")
    await eventually(lambda: "b0" in worker.done)

    assert worker.done.index("b0") <= 3


async def test_nobody_overtakes_who_waits() -> None:
    worker = Worker(0.001)
    for name in ("a0", "a1", "a2"):
        worker.step(name)
    await asyncio.sleep(0)

    worker.step("b0")
    worker.step("b1")
    await eventually(lambda: len(worker.done) == 5)

    assert worker.done.index("a2") <= 3


async def test_a_quiet_turn_has_its_whole_slice() -> None:
    worker = Worker(0.001)
    for number in range(5):
        worker.step(f"a{number}")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert worker.done == ["a0", "a1", "a2", "a3", "a4"]
    assert worker.turns.has_time


async def test_step_that_fails_does_not_keep_the_others_waiting() -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context["exception"])
    )
    turns, done, error = (
        UnauthenticatedInputScheduler(0.001, FakeClock()),
        list[str](),
        RuntimeError("failed"),
    )

    def fail() -> None:
        raise error

    turns.enqueue("a", fail)
    turns.enqueue("b", lambda: done.append("b"))

    await eventually(lambda: done == ["b"])
    assert failures == [error]
    assert turns.has_time


async def test_cancelled_step_is_let_go_of_and_is_not_done() -> None:
    worker = Worker(0.001)
    worker.step("a0")

    def step() -> None:
        worker.done.append("cancelled")

    kept = weakref.ref(step)
    waiting = worker.turns.enqueue("a", step)
    worker.step("b0")
    del step

    waiting.cancel()

    assert kept() is None
    await eventually(lambda: "b0" in worker.done)
    assert worker.done == ["a0", "b0"]
    assert worker.turns.has_time


@contextmanager
def flooding(place: Place, count: int, data: bytes | None = None) -> Iterator[list[socket.socket]]:
    """Open connections from another address and send a hello on each, all before any is served."""
    flood = Flood(place.address, FLOODER)
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.socket()) for _ in range(count)]
        for connection in connections:
            connection.bind((FLOODER, 0))
            connection.connect(place.address)
            connection.sendall(flood.hello if data is None else data)
            connection.settimeout(0)
        yield connections


def answered(connections: list[socket.socket]) -> int:
    count = 0
    for connection in connections:
        with suppress(BlockingIOError):
            count += bool(connection.recv(1, socket.MSG_PEEK))
    return count


@pytest.mark.timeout(60)
async def test_a_newcomer_does_not_wait_behind_a_flood_of_another_address(
    certificates: Certificates,
) -> None:
    """With one step in a turn and one line for all, the whole flood would be served first."""
    limits = ConnectionLimits(unauthenticated_slice_seconds=1e-9)
    async with listening(certificates, limits) as place:
        with flooding(place, 300) as flood:
            async with connected(place.address, certificates.client_context("alice")) as client:
                assert (await client.request()).status == 200
                served = answered(flood)

            assert served < 200
            await eventually(lambda: answered(flood) == 300, seconds=30)


async def test_an_established_connection_is_served_between_handshakes(
    certificates: Certificates,
) -> None:
    limits = ConnectionLimits(unauthenticated_slice_seconds=1e-9)
    async with (
        listening(certificates, limits) as place,
        connected(place.address, certificates.client_context("alice")) as client,
    ):
        assert (await client.request()).status == 200
        with flooding(place, 300) as flood:
            assert (await client.request()).status == 200

            assert answered(flood) < 100


async def test_who_leaves_while_it_waits_is_counted_and_costs_nothing(
    certificates: Certificates,
) -> None:
    limits = ConnectionLimits(unauthenticated_slice_seconds=1e-9)
    async with listening(certificates, limits) as place:
        with flooding(place, 100):
            await eventually(lambda: len(place.listener.connections) > 50)
        await eventually(lambda: not place.listener.connections, seconds=20)

        failures = place.listener.handshake_failures
        assert sum(failures.values()) == 100
        assert failures["left"] + failures["other"] == 100
        async with connected(place.address, certificates.client_context("alice")) as client:
            assert (await client.request()).status == 200


async def test_handshakes_in_pieces_are_put_together_in_order(certificates: Certificates) -> None:
    """Even if each piece has to wait for a turn of its own."""
    limits = ConnectionLimits(unauthenticated_slice_seconds=1e-9)
    async with listening(certificates, limits) as place:

        async def ask(user: str) -> int:
            async with connected(place.address, certificates.client_context(user)) as client:
                return (await client.request()).status

        assert await asyncio.gather(*(ask(f"user-{n}") for n in range(20))) == [200] * 20


async def test_what_waits_is_counted_in_the_budget_before_authentication(
    certificates: Certificates,
) -> None:
    limits = ConnectionLimits(unauthenticated_slice_seconds=1e-9)
    async with listening(certificates, limits, budget_bytes=20_000) as place:
        with flooding(place, 200):
            await eventually(lambda: place.listener.handshake_failures[EVICTED] > 0, seconds=20)
            assert place.budget.used_bytes <= 20_000
        await eventually(lambda: not place.listener.connections, seconds=20)


# No step has a turn, so whatever comes waits.
NO_TURNS = ConnectionLimits(unauthenticated_slice_seconds=0)


@pytest.mark.parametrize("end", ["timeout", "evicted"])
async def test_bytes_of_a_handshake_that_waits_are_let_go_with_its_connection(
    certificates: Certificates, end: str
) -> None:
    async with listening(certificates, NO_TURNS) as place:
        with flooding(place, 1, b"x" * 5000):
            await eventually(lambda: place.budget.used_bytes == 5000)
            (connection,) = place.listener.connections
            if end == "evicted":
                connection.evict()
                assert connection._queued_bytes is None
            else:
                place.clock.advance(11)
                place.listener.close_expired()
            await eventually(lambda: not place.listener.connections)

        assert connection._queued_bytes is None
        assert place.budget.used_bytes == 0
        assert place.listener.handshake_failures[end] == 1


async def test_handshake_that_waits_is_cut_off_once_it_is_too_long(
    certificates: Certificates,
) -> None:
    """Before our answer a client has nothing to say beside its hello."""
    async with listening(certificates, NO_TURNS) as place:
        most = NO_TURNS.handshake_bytes
        with flooding(place, 1, b"x" * most):
            await eventually(lambda: place.budget.used_bytes == most)
            with flooding(place, 1, b"x" * (most + 1)):
                await eventually(lambda: place.listener.handshake_failures[CERTIFICATE] == 1)

            (connection,) = place.listener.connections
            assert connection.is_open
            assert place.budget.used_bytes == most


async def test_later_bytes_of_a_handshake_that_waits_are_bounded(
    certificates: Certificates,
) -> None:
    async with listening(certificates) as place:
        with flooding(place, 1) as clients:
            await eventually(lambda: answered(clients) == 1)
            (connection,) = place.listener.connections
            place.listener._shared.unauthenticated_input.set_slice(0)

            were_open = []
            for _ in range(5):
                connection.data_received(bytes(64 * 1024))
                were_open.append(connection.is_open)

            assert were_open == [True] * 4 + [False]
            assert connection._queued_bytes is None
        await eventually(lambda: place.budget.used_bytes == 0)


async def test_large_request_behind_a_handshake_that_waits_is_served(
    certificates: Certificates,
) -> None:
    """A client sends its request with the end of its handshake, and waits for nothing."""
    limits = ConnectionLimits(unauthenticated_slice_seconds=1e-9)
    async with listening(certificates, limits) as place:

        async def ask(user: str) -> int:
            async with connected(place.address, certificates.client_context(user)) as client:
                return (await client.request(headers=[("X", "x" * 120_000)])).status

        statuses = await asyncio.gather(*(ask(f"user-{n}") for n in range(20)))

        assert statuses == [200] * 20


async def opened_unauthenticated(
    place: Place, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Complete a handshake, and wait until the listener is idle."""
    count = len(place.listener.connections)
    reader, writer = await asyncio.open_connection(
        *place.address, ssl=context, server_hostname="127.0.0.1"
    )
    await eventually(lambda: len(place.listener.connections) == count + 1)
    return reader, writer


HEAD = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"


async def test_requests_before_authentication_wait_for_the_slice_and_others_do_not(
    certificates: Certificates,
) -> None:
    async with (
        listening(certificates) as place,
        connected(place.address, certificates.client_context("alice")) as alice,
    ):
        assert (await alice.request()).status == 200
        reader, writer = await opened_unauthenticated(place, certificates.client_context("bob"))
        place.listener._shared.unauthenticated_input.set_slice(0)

        writer.write(HEAD % 1)
        await eventually(lambda: place.budget.used_bytes > 0)

        assert (await alice.request(target="/alice")).status == 200
        assert b"/1" not in place.handler.targets
        place.listener._shared.unauthenticated_input.set_slice(1)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert place.budget.used_bytes == 0
        writer.close()


async def test_requests_of_an_authenticated_client_are_not_queued(
    certificates: Certificates,
) -> None:
    async with (
        listening(certificates) as place,
        connected(place.address, certificates.client_context("alice")) as alice,
    ):
        assert (await alice.request()).status == 200
        place.listener._shared.unauthenticated_input.set_slice(0)

        assert (await alice.request(target="/again")).status == 200


async def test_bytes_that_follow_queued_bytes_wait_behind_them_after_authentication(
    certificates: Certificates,
) -> None:
    """Otherwise the end of a request could be read before its start."""
    async with listening(certificates) as place:
        place.handler.holds = True
        reader, writer = await opened_unauthenticated(place, certificates.client_context("bob"))
        (connection,) = place.listener.connections
        place.handler.authenticates = False
        writer.write(HEAD % 1)
        await eventually(lambda: len(place.handler.held) == 1)
        place.listener._shared.unauthenticated_input.set_slice(0)
        writer.write(HEAD % 2)
        await eventually(lambda: connection._queued_bytes is not None)

        place.handler.held[0].mark_authenticated(is_anonymous=False)
        was_paced = connection._is_paced
        place.handler.holds = False
        place.handler.held[0].send_response(200, [], b"")
        writer.write(HEAD % 3)
        place.listener._shared.unauthenticated_input.set_slice(1)

        await eventually(lambda: len(place.handler.targets) == 3)
        assert place.handler.targets == [b"/1", b"/2", b"/3"]
        assert (was_paced, connection._is_paced) == (True, False)
        assert place.budget.used_bytes == 0
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()


async def test_pipelined_requests_before_authentication_are_spread_over_iterations(
    certificates: Certificates,
) -> None:
    limits = ConnectionLimits(unauthenticated_slice_seconds=1e-9)
    async with listening(certificates, limits) as place:
        place.handler.authenticates = False
        reader, writer = await opened_unauthenticated(place, certificates.client_context("bob"))
        served: list[int] = []

        def count_served() -> None:
            served.append(len(place.handler.targets))
            if served[-1] < 50:
                asyncio.get_running_loop().call_soon(count_served)

        count_served()
        writer.write(b"".join(HEAD % number for number in range(50)))
        await eventually(lambda: len(place.handler.targets) == 50)

        assert place.handler.targets == [b"/%d" % number for number in range(50)]
        steps = [after - before for before, after in pairwise(served)]
        assert max(steps) <= 2
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()


@pytest.mark.parametrize("end", ["closed", "lost", "evicted"])
async def test_queued_request_is_dropped_with_its_connection(
    certificates: Certificates, end: str
) -> None:
    async with listening(certificates) as place:
        _, writer = await opened_unauthenticated(place, certificates.client_context("bob"))
        place.listener._shared.unauthenticated_input.set_slice(0)
        writer.write(HEAD % 1)
        await eventually(lambda: place.budget.used_bytes > 0)
        (connection,) = place.listener.connections

        if end == "closed":
            connection.close()
        elif end == "evicted":
            connection.evict()
        else:
            connection.abort()
        writer.close()
        place.listener._shared.unauthenticated_input.set_slice(1)

        await eventually(lambda: not place.listener.connections)
        assert place.handler.targets == []
        assert place.budget.used_bytes == 0


async def test_several_connections_are_accepted_in_a_turn(certificates: Certificates) -> None:
    """One in a turn would let a queue of 4096 delay a newcomer by as many turns."""
    async with listening(certificates) as place:
        with ExitStack() as stack:
            for _ in range(200):
                connection = stack.enter_context(socket.socket())
                connection.connect(place.address)
            turns = 0
            while len(place.listener.connections) < 200:
                turns += 1
                await asyncio.sleep(0)

            assert turns < 60
