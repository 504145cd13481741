"""Who does not get on is closed, at every step that comes before a request is served."""

import asyncio
import ssl
from collections.abc import Callable

import pytest

from tests.support.http_client import connected


@pytest.fixture
def serving_settings() -> dict[str, object]:
    # The handshake must succeed on a busy machine, too; the other two need only run out.
    return {
        "limits": {
            "handshakeTimeout": "2s",
            "readHeaderTimeout": "200ms",
            "idleTimeout": "200ms",
            "unauthenticatedIdleTimeout": "200ms",
        },
    }


@pytest.mark.parametrize("progress", ["nothing", "half a handshake", "half a head", "idle"])
async def test_who_does_not_get_on_is_closed(
    proxy: tuple[str, int],
    context_of: Callable[[str | None], ssl.SSLContext],
    progress: str,
) -> None:
    async with connected(proxy) as client:
        if progress == "half a handshake":
            client._writer.write(b"\x16\x03\x01\x02\x00\x01")
        elif progress != "nothing":
            await client.shake_hands(context_of("alice"))
        if progress == "half a head":
            await client.send(b"GET / HTTP/1.1\r\nHost:")

        async with asyncio.timeout(20):
            while not client._reader.at_eof():
                await client._reader.read(65536)
