"""A real proxy on an event loop and a thread of its own, whose CPU time is read from outside.

Clients are blocking sockets in the thread that measures. So what is measured is all that the event
loop does for a request (TLS, head, decision, relay, log line), and nothing that a client does.
"""

import asyncio
import contextlib
import itertools
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from typing import Any, TypeVar

import uvloop

from proxy.runtime.proxy import run_proxy
from proxy.settings.model import Settings
from proxy.telemetry.logs import configure_logs
from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.support.certificates import Certificates, new_certificates
from tests.support.restored_logging import restored_logging
from tests.support.scripted_api_server import ScriptedApiServer, scripted_api_server

T = TypeVar("T")
NUMBER = b"@NUMBER@"
"""Stands in a request for a number that no other request has, so that no cache knows it."""
_SECONDS = 60.0
_TURNS = 4
_MOST_HEAD_BYTES = 2 * 1024 * 1024
# Rations are for floods; here each request is to be served in full.
_SECTIONS = {
    "authentication": {"tokenReview": {"perAddressPerSecond": 1000000, "perAddressBurst": 1000000}},
    "impersonation": {"reviews": {"perCallerPerSecond": 1000000, "perCallerBurst": 1000000}},
}


class _Loop:
    """An event loop that runs in a thread until it is told to end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.Thread(target=loop.run_forever, daemon=True)
        self._thread.start()
        assert self._thread.ident is not None
        self._clock = time.pthread_getcpuclockid(self._thread.ident)

    def cpu_nanoseconds(self) -> int:
        """Return the CPU time of the thread so far, once the loop has nothing left to do."""
        self.run(_turns()).result(_SECONDS)
        return time.clock_gettime_ns(self._clock)

    def run(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Start a coroutine there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def end(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_SECONDS)
        self.loop.close()


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class ServedProxy:
    """A proxy to send requests to, and what they cost its event loop."""

    def __init__(self, loop: _Loop, address: tuple[str, int], api: ScriptedApiServer) -> None:
        self._loop = loop
        self._address = address
        self._api = api
        self._numbers = itertools.count(10_000_000)
        self.statuses: set[int] = set()
        """Each status that was answered since it was last cleared."""

    def connect(self, context: ssl.SSLContext) -> "Client":
        """Return a client of this proxy."""
        return Client(self, context, self._address)

    def handshake_cost(self, context: ssl.SSLContext) -> int:
        """Connect, send a request, and return the CPU nanoseconds of the event loop until then."""
        started = self._loop.cpu_nanoseconds()
        client = self.connect(context)
        with contextlib.suppress(OSError):
            client.make_ready()
        client.close()
        return self._loop.cpu_nanoseconds() - started

    def cost(self, client: "Client", request: bytes) -> int:
        """Send a request, read its answer, and return the CPU nanoseconds of the event loop."""
        request = request.replace(NUMBER, b"%d" % next(self._numbers))
        client.make_ready()
        started = self._loop.cpu_nanoseconds()
        self.statuses.add(client.exchange(request))
        spent = self._loop.cpu_nanoseconds() - started
        for seen in (self._api.requests, self._api.reviews, self._api.seen_reviews):
            seen.clear()
        self._api.reviewed_access.clear()
        self._api.violations.clear()
        return spent


class Client:
    """One client, which connects again whenever its connection has ended."""

    def __init__(
        self, proxy: ServedProxy, context: ssl.SSLContext, address: tuple[str, int]
    ) -> None:
        self._context = context
        self._address = address
        self._socket: ssl.SSLSocket | None = None
        self._proxy = proxy

    def cost(self, request: bytes) -> int:
        """Return what a request costs the event loop."""
        return self._proxy.cost(self, request)

    def make_ready(self) -> None:
        """Have a connection whose handshake is over."""
        if self._socket is None:
            plain = create_connection(self._address, timeout=_SECONDS)
            self._socket = self._context.wrap_socket(plain, server_hostname="127.0.0.1")
            # The proxy's part of the handshake, its session tickets too, is over by its answer.
            self.exchange(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n")

    def exchange(self, request: bytes) -> int:
        """Send a request and return the status of its answer; 0 if the connection ended."""
        assert self._socket is not None
        # Who is refused early may find the connection closed while it still sends.
        with contextlib.suppress(OSError):
            self._socket.sendall(request)
        status, stays = 0, False
        with contextlib.suppress(OSError):
            status, stays = _read_answer(self._socket)
        if not stays:
            self.close()
        return status

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _read_answer(connection: ssl.SSLSocket) -> tuple[int, bool]:
    """Return the status of an answer, and whether the connection stays."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece or len(received) > _MOST_HEAD_BYTES:
            return 0, False
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lowered = head.lower()
    status = int(head.split(b" ", 2)[1])
    _, found, rest = lowered.partition(b"\r\ncontent-length:")
    missing = int(rest.partition(b"\r\n")[0]) - len(body) if found else 0
    # Little at once: what this client allocates is measured with the rest.
    while missing > 0 and (piece := connection.recv(min(missing, 65536))):
        missing -= len(piece)
    return status, bool(found) and missing <= 0 and b"connection: close" not in lowered


@contextmanager
def served_proxy(directory: Path) -> Iterator[tuple[ServedProxy, Certificates]]:
    """Run a proxy before a scripted API server for the time of the context."""
    certificates = new_certificates()
    upstream, serving = _Loop(asyncio.new_event_loop()), _Loop(uvloop.new_event_loop())
    with contextlib.ExitStack() as stack:
        stack.callback(serving.end)
        stack.callback(upstream.end)
        stack.enter_context(restored_logging())
        stream = stack.enter_context((directory / "log").open("w"))
        configure_logs(style="json", level="info", stream=stream)
        api = stack.enter_context(_held_open(upstream, lambda: scripted_api_server(certificates)))
        document = settings_document(api, certificates, directory)
        for name, section in _SECTIONS.items():
            document[name] = {**document[name], **section}
        settings = Settings.model_validate(document)
        proxy = stack.enter_context(_held_open(serving, lambda: run_proxy(settings)))
        context = certificates.client_context("early")
        serving.run(wait_until_it_admits(proxy.address, context)).result(_SECONDS)
        yield ServedProxy(serving, proxy.address, api), certificates


@contextmanager
def _held_open(
    loop: _Loop, open_it: Callable[[], contextlib.AbstractAsyncContextManager[T]]
) -> Iterator[T]:
    """Enter an asynchronous context on another loop, and leave it there, in one task."""
    entered: Future[T] = Future()
    leave = asyncio.Event()

    async def hold() -> None:
        try:
            async with open_it() as value:
                entered.set_result(value)
                await leave.wait()
        except Exception as error:
            if not entered.done():
                entered.set_exception(error)
            raise

    held = loop.run(hold())
    try:
        yield entered.result(_SECONDS)
    finally:
        loop.loop.call_soon_threadsafe(leave.set)
        held.result(_SECONDS)
