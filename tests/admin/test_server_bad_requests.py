"""What the admin port cannot read, it does not repeat."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from proxy.admin.health import HealthHandler
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from tests.admin.listening import new_server

SECRET = b"canary"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    with ReservedPort() as reserved:
        server = new_server({"livez": HealthHandler("livez", [])})
        await server.start(LOOPBACK, reserved.number)
        yield reserved.number
        await server.stop()


async def answer(port: int, head: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(head)
    received = await reader.read()
    writer.close()
    return received


@pytest.mark.parametrize(
    "line",
    [
        b"Authorization: Bearer " + SECRET * 2000,
        b"Bad Name: " + SECRET,
        b"\x00" + SECRET,
        b"Content-Length: " + SECRET,
    ],
    ids=["too long", "a bad name", "a bad byte", "a bad length"],
)
async def test_a_head_that_cannot_be_read_is_a_400_that_repeats_nothing(
    port: int, line: bytes
) -> None:
    received = await answer(port, b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n")

    assert received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert received.endswith(b"\r\n\r\nBad Request")
    assert SECRET not in received


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        (b"GET", b"/metrics", b"200"),
        (b"HEAD", b"/livez", b"200"),
        (b"GET", b"/canary", b"404"),
        (b"GET", b"/metrics/", b"404"),
        (b"GET", b"/livez/", b"404"),
        (b"GET", b"/livez/canary", b"404"),
        (b"GET", b"//livez", b"404"),
        (b"POST", b"/livez", b"405"),
        (b"POST", b"/metrics", b"405"),
    ],
)
async def test_only_its_pages_are_served_and_only_to_readers(
    port: int, method: bytes, path: bytes, status: bytes
) -> None:
    head = b"%b %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    received = await answer(port, head % (method, path))

    assert received.startswith(b"HTTP/1.1 %b " % status)
    assert SECRET not in received
