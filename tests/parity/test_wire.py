"""The client of the parity run, before a server that pauses in the middle of an answer."""

import asyncio

import pytest

from proxy.sandbox.identities import BearerToken
from tests.parity.wire import ANSWER_SECONDS, STREAM_SECONDS, Client, Credentials, PageCut
from tests.support.certificates import new_certificates

_PAUSE = 2 * STREAM_SECONDS
_HEAD = b"HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n"


async def _ask(status: bytes, *, pause: float) -> bytes:
    """Fetch a page in two parts, from a server that pauses between them."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_HEAD % status + b"5\r\nfirst\r\n")
        await asyncio.sleep(_PAUSE)
        writer.write(b"5\r\n last\r\n0\r\n\r\n")
        writer.close()

    certificates = new_certificates()
    async with await asyncio.start_server(
        serve, "127.0.0.1", 0, ssl=certificates.server_context()
    ) as server:
        port = server.sockets[0].getsockname()[1]
        credentials = Credentials(
            BearerToken("token"), ca_pem=certificates.servers.cert_pem.bytes()
        )
        client = Client(f"https://127.0.0.1:{port}", credentials, pause=pause)
        try:
            return await asyncio.to_thread(client.fetch, b"/metrics")
        finally:
            client.close()


async def test_a_page_is_read_to_its_end_however_it_pauses() -> None:
    assert await _ask(b"200 OK", pause=ANSWER_SECONDS) == b"first last"


async def test_a_page_that_is_taken_for_a_stream_is_not_an_empty_page() -> None:
    with pytest.raises(PageCut, match="status 200, 0 bytes"):
        await _ask(b"200 OK", pause=STREAM_SECONDS)


async def test_a_refusal_is_not_a_page() -> None:
    with pytest.raises(PageCut, match="status 503, 10 bytes"):
        await _ask(b"503 Service Unavailable", pause=ANSWER_SECONDS)
