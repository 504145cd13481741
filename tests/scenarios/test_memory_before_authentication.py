"""Memory of a proxy whose callers are not authenticated: bounded, and given back after a peak.

The proxy is a process of its own here, with default settings, so that its memory is nobody else's.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from tests.scenarios.conftest import settings_document, wait_until_it_admits
from tests.scenarios.test_backpressure import until_it_listens
from tests.support.certificates import Certificates
from tests.support.http_client import Cut, HttpClient, connected, request_bytes
from tests.support.processes import ProxyProcess, resident_bytes, started_proxy
from tests.support.scripted_api_server import ScriptedApiServer
from tests.support.sizes import sized, soak

MB = 1024 * 1024
CONNECTIONS = sized(150, full=300)
PEAK_BYTES = 300 * MB
REST_BYTES = 150 * MB
REST_SECONDS = 60.0
REVIEW_SECONDS = 0.5
WAIT_SECONDS = 20.0
ATTACKER, NEWCOMER = "127.0.0.2", "127.0.0.3"

# The proxy is always on uvloop; its clients need not be tried on both.
pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_factories=["uvloop"])]


class Slow(asyncio.Event):
    """Lets each review pass after a moment."""

    async def wait(self) -> Literal[True]:
        await asyncio.sleep(REVIEW_SECONDS)
        return True


def bearer(token: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {token}")


def unknown_token(number: int) -> bytes:
    """A token of 1 MB."""
    return request_bytes(headers=[bearer(f"{number}".ljust(1_000_000, "x"))])


def reviewed_token(number: int) -> bytes:
    """The largest token that is reviewed."""
    return request_bytes(headers=[bearer(f"{number}".ljust(65_536, "x"))])


def whole_head(number: int) -> bytes:
    """A head of 1 MB with a small token, which is reviewed."""
    return request_bytes(headers=[bearer(f"guess-{number}"), *[("X-Long", "x" * 100_000)] * 10])


def half_head(_number: int) -> bytes:
    """A head of 1 MB that does not end."""
    return b"GET / HTTP/1.1\r\n" + (b"X: ".ljust(100_000, b"x") + b"\r\n") * 10


def early_body(number: int) -> bytes:
    """A body of 1 MB, sent while the token is reviewed."""
    headers = [bearer(f"guess-{number}"), ("Content-Length", "1000000")]
    return request_bytes("POST", headers=headers) + bytes(1_000_000)


@pytest.fixture
def process(
    api: ScriptedApiServer, certificates: Certificates, tmp_path: Path
) -> Iterator[ProxyProcess]:
    with started_proxy(settings_document(api, certificates, tmp_path), tmp_path) as process:
        yield process


class Peak:
    """The most memory that a process had."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.resident = 0

    async def watch(self) -> None:
        while True:
            self.resident = max(self.resident, resident_bytes(self._pid))
            await asyncio.sleep(0.02)


@asynccontextmanager
async def watched(process: ProxyProcess) -> AsyncIterator[Peak]:
    peak = Peak(process.pid)
    watching = asyncio.ensure_future(peak.watch())
    try:
        yield peak
    finally:
        watching.cancel()


async def attack(client: HttpClient, data: bytes, statuses: list[int]) -> None:
    """Send all of it, as far as that is taken, and wait for an answer."""
    try:
        await client.send(data)
        statuses.append((await client.read_response()).status)
    except (Cut, ConnectionError, ssl.SSLError):
        statuses.append(0)


async def slowest_service(
    process: ProxyProcess, context: ssl.SSLContext, known: HttpClient, rounds: int
) -> float:
    """Return the longest wait of a known caller and of a new one, with another token each time."""
    slowest = 0.0
    for number in range(rounds):
        started = time.monotonic()
        assert (await known.request()).status == 200
        async with connected(process.address, context, source=NEWCOMER) as newcomer:
            answer = await newcomer.request(headers=[bearer(f"good-{number}")])
        assert answer.status == 200, answer
        slowest = max(slowest, time.monotonic() - started)
    return slowest


@soak
@pytest.mark.parametrize(
    "request_of", [unknown_token, reviewed_token, whole_head, half_head, early_body]
)
async def test_f3_unauthenticated_callers_hold_bounded_memory_and_others_are_served(
    api: ScriptedApiServer,
    process: ProxyProcess,
    context_of: Callable[[str | None], ssl.SSLContext],
    request_of: Callable[[int], bytes],
) -> None:
    await until_it_listens(process.address)
    await wait_until_it_admits(process.address, context_of("early"))
    api.review_gate = Slow()
    api.tokens |= {f"good-{number}": "carol" for number in range(10)}
    before, statuses = resident_bytes(process.pid), list[int]()
    nobody = context_of(None)
    async with connected(process.address, context_of("alice")) as known, watched(process) as peak:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connected(process.address, nobody, source=ATTACKER))
                for _ in range(CONNECTIONS)
            ]
            async with asyncio.TaskGroup() as group:
                attacks = [
                    group.create_task(attack(client, request_of(number), statuses))
                    for number, client in enumerate(clients)
                ]
                slowest = await slowest_service(process, nobody, known, 5)
                for task in attacks:
                    task.cancel()
        left = time.monotonic()
        while resident_bytes(process.pid) > REST_BYTES:
            if time.monotonic() - left > REST_SECONDS:
                break
            await asyncio.sleep(0.1)
    rest, seconds = resident_bytes(process.pid), time.monotonic() - left

    print(  # noqa: T201 - figures
        f"{request_of.__name__}: {before // MB} MB before, {peak.resident // MB} at the most, "
        f"{rest // MB} after {seconds:.1f} s; others waited {slowest:.2f} s; "
        f"{ {status: statuses.count(status) for status in sorted(set(statuses))} }"
    )
    assert peak.resident < PEAK_BYTES
    assert rest < REST_BYTES
    # Nearly all of that is this process, which sends for everybody, and the slow reviews.
    assert slowest < WAIT_SECONDS
