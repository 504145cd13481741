"""Client sessions for the proxy's own calls: what a peer may send in answer to one call is bounded.

aiohttp bounds one header line and the number of lines. It does not bound the bytes of a body, the
number of informational (1xx) responses, or responses that arrive while no call is under way.
"""

import asyncio
from functools import partial

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader

_SWITCHING_PROTOCOLS = 101
_FIRST_FINAL_STATUS = 200
# Go's client takes as many before it gives up.
_MOST_INFORMATIONAL = 5


class ResponseTooLarge(aiohttp.ClientError):
    """The peer sent more in answer to one call than it may."""


def bounded_session(
    *, answer_bytes: int, connections: int, timeout: aiohttp.ClientTimeout | None = None
) -> aiohttp.ClientSession:
    """Return a session that reads at most `answer_bytes` for each call; 0 connections: any number.

    It follows nothing of the environment (proxies, .netrc), keeps no cookies and decompresses
    nothing: a compressed answer could be a thousand times larger than its bytes on the wire.
    """
    return aiohttp.ClientSession(
        connector=_BoundedConnector(answer_bytes, connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
        trust_env=False,
        timeout=timeout or aiohttp.ClientTimeout(),
    )


class _BoundedConnector(aiohttp.TCPConnector):
    """Makes connections whose answers are bounded."""

    def __init__(self, answer_bytes: int, connections: int) -> None:
        super().__init__(limit=connections)
        self._factory = partial(  # type: ignore[assignment] # invariant, and only ever called
            _BoundedResponses, answer_bytes=answer_bytes, loop=self._loop
        )


class _BoundedResponses(ResponseHandler):
    """Reads the responses of one connection; a peer that sends too much is cut off."""

    def __init__(self, *, answer_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._answer_bytes = answer_bytes
        self._bytes_left = 0
        self._informational_left = 0
        self._is_answered = True

    def set_response_params(self, **options: object) -> None:
        """Begin a call: the library tells how its response is to be read."""
        self._bytes_left = self._answer_bytes
        self._informational_left = _MOST_INFORMATIONAL
        self._is_answered = False
        super().set_response_params(**options)  # type: ignore[arg-type] # handed on as they are

    def data_received(self, data: bytes) -> None:
        """Take bytes of the peer, up to the bound.

        A call that needs no more than the head, which came within the bound, has been answered.
        """
        left, self._bytes_left = self._bytes_left, self._bytes_left - len(data)
        if self._bytes_left >= 0:
            super().data_received(data)
            return
        if left > 0:
            super().data_received(data[:left])
        self._cut_off("the answer is too large")

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the head of a response: the library's parser has read one."""
        code = data[0].code
        if self._is_answered or code == _SWITCHING_PROTOCOLS:
            # Kept, it would answer the next call on this connection before that call was made.
            self._cut_off("a response that no call has asked for")
            return
        if code < _FIRST_FINAL_STATUS:
            self._informational_left -= 1
            if self._informational_left < 0:
                self._cut_off("too many informational responses")
                return
        else:
            self._is_answered = True
        super().feed_data(data, size)

    def _cut_off(self, reason: str) -> None:
        error = ResponseTooLarge(reason)
        self.set_exception(error)
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(error)
        if self.transport is not None:
            self.transport.abort()
