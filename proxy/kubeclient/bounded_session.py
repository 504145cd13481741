"""Client sessions for the proxy's own calls, with a bound on the size of each response.

aiohttp bounds one header line and the number of lines. It does not bound the bytes of a body, the
number of informational (1xx) responses, or responses that arrive while no call is in progress.
"""

import asyncio
from functools import partial

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

_SWITCHING_PROTOCOLS = 101
_FIRST_FINAL_STATUS = 200
# The limit of Go's client.
_MAX_INFORMATIONAL = 5


class ResponseTooLarge(aiohttp.ClientError):
    """The peer exceeded a response limit."""


def bounded_session(
    *, response_bytes: int, connections: int, timeout: aiohttp.ClientTimeout | None = None
) -> aiohttp.ClientSession:
    """Return a session that reads at most `response_bytes` per call; 0 connections: no limit.

    It ignores the environment (proxies, .netrc), keeps no cookies and decompresses nothing. A
    decompressed response could be a thousand times larger than its bytes on the wire.
    """
    return aiohttp.ClientSession(
        connector=_BoundedConnector(response_bytes, connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
        trust_env=False,
        timeout=timeout or aiohttp.ClientTimeout(),
    )


class _BoundedConnector(aiohttp.TCPConnector):
    """Opens connections whose responses are bounded."""

    def __init__(self, answer_bytes: int, connections: int) -> None:
        super().__init__(limit=connections)
        self._factory = partial(  # type: ignore[assignment] # invariant, and only ever called
            _BoundedResponses, answer_bytes=answer_bytes, loop=self._loop
        )


class _BoundedResponses(ResponseHandler):
    """Reads the responses of one connection, and aborts it if the peer sends too much."""

    def __init__(self, *, answer_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._answer_bytes = answer_bytes
        self._bytes_left = 0
        self._informational_left = 0
        self._has_response = True

    def set_response_params(self, **options: object) -> None:
        """Reset the bounds when a call begins; pass on the library's options for its response."""
        self._bytes_left = self._answer_bytes
        self._informational_left = _MAX_INFORMATIONAL
        self._has_response = False
        super().set_response_params(**options)  # type: ignore[arg-type] # passed on unchanged

    def data_received(self, data: bytes) -> None:
        """Pass on bytes of the peer, up to the bound.

        A call that needs only the head has its response, if the head is within the bound.
        """
        left, self._bytes_left = self._bytes_left, self._bytes_left - len(data)
        if self._bytes_left >= 0:
            super().data_received(data)
            return
        if left > 0:
            super().data_received(data[:left])
        self._abort("the response is too large")

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Check the head of a response that the library's parser has read, and pass it on."""
        code = data[0].code
        if self._has_response or code == _SWITCHING_PROTOCOLS:
            # If kept, it would become the response to the next call on this connection.
            self._abort("a response without a request")
            return
        if code < _FIRST_FINAL_STATUS:
            self._informational_left -= 1
            if self._informational_left < 0:
                self._abort("too many informational responses")
                return
        else:
            self._has_response = True
        super().feed_data(data, size)

    def _abort(self, reason: str) -> None:
        error = ResponseTooLarge(reason)
        self.set_exception(error)
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(error)
        if self.transport is not None:
            self.transport.abort()
