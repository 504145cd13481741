"""Request heads of one connection, with a cache of repeated header blocks and whole heads."""

import re

from proxy.core.request_cache import RequestCache
from proxy.wire.http1.body import NO_BODY, BodyKind
from proxy.wire.http1.message import RequestHead, parse_request_head

# A subset of valid request lines that all parsers interpret in the same way.
_PLAIN_REQUEST_LINE = re.compile(rb"([A-Z]+) (/[-A-Za-z0-9._~!$&'()*+,;=:@%/?]*) HTTP/1\.1")
# Enough for a token and one or two hundred groups.
_MAX_CACHED_BLOCK_BYTES = 8192
_MAX_CACHED_BLOCK_WITH_BODY_BYTES = 4096
_MAX_CACHED_HEADERS = 256
_MAX_CACHED_REQUEST_LINE_BYTES = 1024
# Cache bounds of one connection: a few header blocks, and requests with any of them.
_MAX_CACHED_BLOCKS = 4
_MAX_CACHED_BYTES = 12 * 1024
_MAX_CACHED_REQUESTS = 16
# A larger head is never cached, so it is not looked up: the lookup would copy all of it.
_MAX_CACHEABLE_HEAD_BYTES = 16 * 1024


class _HeaderBlock:
    """Cached header lines, and the requests that had them, by request line."""

    __slots__ = ("first", "lines", "requests")

    def __init__(self, lines: bytes, first: RequestHead) -> None:
        self.lines = lines
        self.first = first
        self.requests: dict[bytes, RequestHead] = {}


class CachingRequestParser:
    """Parses the request heads of one connection.

    A client repeats the same few header blocks and changes the target. Lines that are byte for byte
    equal to earlier ones have the same meaning. Only plain requests use the cache: no upgrade, a
    target without unusual characters, and a body by its length or none. Any other request is parsed
    completely. Equal heads without a body are one value and share one request cache.
    The cache may contain a token. It is kept no longer than the connection.
    """

    __slots__ = ("_block_with_body", "_blocks", "_cached_requests", "_last")

    def __init__(self) -> None:
        self._blocks: dict[bytes, _HeaderBlock] = {}
        # The header block of the last request: comparing with it is cheaper than a lookup.
        self._last: _HeaderBlock | None = None
        # Requests with a body are cached separately, one entry only: their Content-Length usually
        # changes, and must not evict the other entries.
        self._block_with_body: _HeaderBlock | None = None
        self._cached_requests = 0

    def find(self, data: bytes) -> RequestHead | None:
        """Return the request if `data` is exactly one head and its header lines are cached.

        Cached lines include the end of their head, so a match needs no search for the end.
        """
        if len(data) > _MAX_CACHEABLE_HEAD_BYTES:
            return None
        first_line, _, lines = data.partition(b"\r\n")
        block = self._last
        if block is None or block.lines != lines:
            block = self._last = self._blocks.get(lines)
        if block is None:
            return None
        return block.requests.get(first_line) or self._parse_request_line(block, first_line)

    def parse(self, head: bytes) -> RequestHead:
        """Parse one complete request head that `find` does not know, and cache it.

        Anything ambiguous in it is a 400.
        """
        if len(head) > _MAX_CACHEABLE_HEAD_BYTES:
            return parse_request_head(head)
        first_line, _, lines = head.partition(b"\r\n")
        cached = self._cached_with_body(first_line, lines)
        if cached is not None:
            return cached
        request = parse_request_head(head)
        if not _is_plain(request):
            return request
        if request.framing is not NO_BODY:
            if len(lines) <= _MAX_CACHED_BLOCK_WITH_BODY_BYTES:
                self._block_with_body = _HeaderBlock(lines, request)
        elif len(lines) <= _MAX_CACHED_BLOCK_BYTES:
            request = request._replace(cache=RequestCache())
            self._cache_request(self._cache_block(lines, request), first_line, request)
        return request

    def clear(self) -> None:
        """Clear the cache; for connections that may be idle for long."""
        self._blocks.clear()
        self._last = self._block_with_body = None
        self._cached_requests = 0

    def _cache_block(self, lines: bytes, request: RequestHead) -> _HeaderBlock:
        blocks = self._blocks
        block = blocks.get(lines)
        if block is None:
            total_bytes = len(lines) + sum(map(len, blocks))
            if len(blocks) >= _MAX_CACHED_BLOCKS or total_bytes > _MAX_CACHED_BYTES:
                self.clear()
            block = self._last = blocks[lines] = _HeaderBlock(lines, request)
        return block

    def _cached_with_body(self, first_line: bytes, lines: bytes) -> RequestHead | None:
        """Return a request with a body if its lines, including the length, equal the last one's.

        No values are cached on it: its processing depends on more than its head.
        """
        block = self._block_with_body
        if (
            block is None
            or block.lines != lines
            or len(first_line) > _MAX_CACHED_REQUEST_LINE_BYTES
        ):
            return None
        return _with_request_line(block.first, first_line)

    def _parse_request_line(self, block: _HeaderBlock, first_line: bytes) -> RequestHead | None:
        """Return a request with cached header lines, if its request line is plain."""
        request = _with_request_line(block.first, first_line)
        if request is not None:
            self._cache_request(block, first_line, request)
        return request

    def _cache_request(self, block: _HeaderBlock, first_line: bytes, request: RequestHead) -> None:
        if len(first_line) > _MAX_CACHED_REQUEST_LINE_BYTES:
            return
        if self._cached_requests >= _MAX_CACHED_REQUESTS:
            for cached_block in self._blocks.values():
                cached_block.requests.clear()
            self._cached_requests = 0
        block.requests[first_line] = request
        self._cached_requests += 1


def _with_request_line(first: RequestHead, first_line: bytes) -> RequestHead | None:
    """Return a request with this request line and the headers of `first`, if it is plain."""
    match = _PLAIN_REQUEST_LINE.fullmatch(first_line)
    if match is None or match[1] != first.method:
        return None
    return RequestHead(
        first.method,
        match[2],
        1,
        first.headers,
        first.framing,
        keep_alive=first.keep_alive,
        cache=None if first.cache is None else RequestCache(),
    )


def _is_plain(request: RequestHead) -> bool:
    """Return whether a request has a body by its length or none, and no upgrade or expectation."""
    return (
        request.minor_version == 1
        and len(request.headers) <= _MAX_CACHED_HEADERS
        and (request.framing is NO_BODY or request.framing.kind is BodyKind.LENGTH)
        and request.upgrade is None
        and not request.expects_continue
    )
