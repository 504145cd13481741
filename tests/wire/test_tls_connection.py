"""A connection that speaks TLS: what is read at once and what is written in one turn."""

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from proxy.wire.tls_client import ClientTLS
from proxy.wire.tls_connection import TLSConnection
from proxy.wire.tls_server import ServerTLS
from proxy.wire.write_batcher import WriteBatcher
from tests.support.certificates import Certificates, new_certificates
from tests.support.clock import FakeClock

STEP = 128 * 1024
HOST = "127.0.0.1"


class Wire:
    """A transport whose other end is a list."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes | memoryview) -> None:
        self.sent.append(bytes(data))

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        self.sent.append(b"".join(pieces))

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_write_buffer_size(self) -> int:
        return 0

    def take(self) -> bytes:
        """Return what was sent since the last time."""
        taken = b"".join(self.sent)
        self.sent.clear()
        return taken


class Listener(TLSConnection):
    """Notes what it hears."""

    def __init__(self, tls: ClientTLS | ServerTLS) -> None:
        super().__init__(tls)
        self.heard: list[bytes] = []

    def plaintext_received(self, data: bytes) -> None:
        self.heard.append(data)
        if b"leave" in data:
            self.leave()

    def leave(self) -> None:
        self._abort()

    def share(self, batcher: WriteBatcher) -> None:
        self._batcher = batcher


class Pair:
    """A listener, and the client's end of its session."""

    def __init__(self, certificates: Certificates, *, is_client: bool) -> None:
        client = ClientTLS(certificates.client_context(), server_hostname=HOST)
        server = ServerTLS(certificates.listening_context())
        self.wire = Wire()
        self.peer: ClientTLS | ServerTLS = server if is_client else client
        self.listener = Listener(client if is_client else server)
        self.listener.connection_made(cast("asyncio.Transport", self.wire))
        for _ in range(3):
            if sent := self.wire.take():
                self.peer.receive(sent)
            self.peer.handshake()
            if due := self.peer.read_output():
                self.listener.data_received(due)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture(params=[False, True], ids=["serving", "upstream"])
async def pair(request: pytest.FixtureRequest, certificates: Certificates) -> Pair:
    return Pair(certificates, is_client=request.param)


@pytest.mark.parametrize("size", [1, STEP // 2 + 1, STEP, STEP + 1, 2 * STEP + 1, 1_000_000])
async def test_all_of_what_is_read_at_once_is_taken(pair: Pair, size: int) -> None:
    sent = bytes(number % 251 for number in range(size))

    pair.listener.data_received(bytes(pair.peer.write(sent)))

    assert b"".join(pair.listener.heard) == sent


async def test_after_the_end_nothing_of_what_was_read_at_once_is_heard(pair: Pair) -> None:
    first = bytes(pair.peer.write(b"a" * 2 * STEP + b"leave"))
    rest = bytes(pair.peer.write(b"b" * 2 * STEP))

    pair.listener.data_received(first + rest)

    assert b"leave" in pair.listener.heard[-1]
    assert len(b"".join(pair.listener.heard)) < 4 * STEP


@pytest.mark.parametrize("size", [10, 60_000])
async def test_what_was_written_before_an_abrupt_end_never_leaves(pair: Pair, size: int) -> None:
    pair.wire.take()

    for _ in range(3):
        pair.listener.write(b"x" * size)
    pair.listener.leave()
    pair.listener.send_unsent()
    await asyncio.sleep(0)

    assert pair.wire.take() == b""
    assert not pair.listener.is_open


@pytest.mark.parametrize("size", [10, 60_000, 400_000])
async def test_what_is_written_in_one_turn_leaves_in_order(pair: Pair, size: int) -> None:
    pair.wire.take()

    for letter in (b"a", b"b", b"c"):
        pair.listener.write(letter * size)
    await asyncio.sleep(0)

    received = pair.peer.decrypt(pair.wire.take())
    assert received == b"".join(letter * size for letter in (b"a", b"b", b"c"))


async def test_who_is_alone_sends_at_once_and_who_comes_just_after_waits(
    pair: Pair,
) -> None:
    clock = FakeClock()
    pair.listener.share(WriteBatcher(clock))
    for _ in range(4):
        pair.listener.write(b"x")
        await asyncio.sleep(0)
    pair.peer.decrypt(pair.wire.take())

    pair.listener.write(b"first")
    at_once = pair.wire.take()
    for word in (b"second", b"third"):
        pair.listener.write(word)
    nothing = pair.wire.take()
    await asyncio.sleep(0)

    assert pair.peer.decrypt(at_once) == b"first"
    assert nothing == b""
    assert pair.peer.decrypt(pair.wire.take()) == b"secondthird"
