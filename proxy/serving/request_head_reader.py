"""Request heads of one connection: received plaintext, split into heads and checked for size."""

from proxy.core.errors import StatusError
from proxy.core.requestinfo.request_info import check_target_length
from proxy.serving.limits.connections import ConnectionLimits
from proxy.wire.http1.message import (
    MAX_HEAD_BYTES,
    UNPARSED_HEAD,
    HeadTooLarge,
    RequestHead,
    check_header_lines,
    count_header_lines,
    find_head_end,
    incomplete_request,
)
from proxy.wire.http1.request_parser import CachingRequestParser

# An incomplete head is checked when it has grown past a multiple of this. Not with each read,
# because reads may be small.
_CHECK_INTERVAL_BYTES = 64 * 1024


class RejectedHead(Exception):
    """A head that is not served, and as much of its request as could be parsed."""

    def __init__(self, error: StatusError, request: RequestHead) -> None:
        super().__init__(error.message)
        self.error = error
        self.request = request


class RequestHeadReader:
    """The received bytes of one connection that no request has used yet."""

    __slots__ = ("_parser", "buffer", "searched")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.searched = 0
        """How much of the buffer is known to contain no end of a head."""
        self._parser = CachingRequestParser()

    def read_single(self, data: bytes, limits: ConnectionLimits) -> RequestHead | None:
        """Return the request if `data` is exactly one head, as it nearly always is.

        Otherwise the data is buffered. The buffer must be empty.
        """
        request = self._parser.find(data)
        if request is not None:
            return request
        if find_head_end(data, 0) != len(data):
            self.buffer += data
            return None
        return self._parse(data, limits, is_new=True)

    def read_next(self, limits: ConnectionLimits) -> RequestHead | None:
        """Return the next request in the buffer, or None if its head is incomplete."""
        end = find_head_end(self.buffer, self.searched)
        if end < 0:
            searched, self.searched = self.searched, len(self.buffer)
            self._check_incomplete(searched, limits)
            return None
        head = bytes(memoryview(self.buffer)[:end])
        del self.buffer[:end]
        self.searched = 0
        return self._parse(head, limits, is_new=False)

    def clear_cache(self) -> None:
        """Free the memory of the cached heads."""
        self._parser.clear()

    def _parse(self, head: bytes, limits: ConnectionLimits, *, is_new: bool) -> RequestHead:
        """Return the request with a complete head; `is_new`: it is known not to be cached."""
        request = UNPARSED_HEAD
        try:
            if len(head) > MAX_HEAD_BYTES or count_header_lines(head) > limits.header_lines:
                raise HeadTooLarge
            if len(head) > limits.header_line_bytes:
                check_header_lines(head, most_bytes=limits.header_line_bytes)
            cached = None if is_new else self._parser.find(head)
            request = cached or self._parser.parse(head)
            check_target_length(request.method, request.target, max_bytes=limits.target_bytes)
        except StatusError as error:
            raise RejectedHead(error, request) from error
        return request

    def _check_incomplete(self, searched: int, limits: ConnectionLimits) -> None:
        """Reject an incomplete head that no further byte can make acceptable."""
        try:
            self._check_size(searched, limits)
        except StatusError as error:
            raise RejectedHead(error, incomplete_request(self.buffer)) from error

    def _check_size(self, searched: int, limits: ConnectionLimits) -> None:
        """Check the size of an incomplete head.

        Reading and decrypting the rest of 1 MB would cost more than all other processing of it.
        """
        buffer = self.buffer
        if len(buffer) > MAX_HEAD_BYTES:
            raise HeadTooLarge
        if len(buffer) // _CHECK_INTERVAL_BYTES == searched // _CHECK_INTERVAL_BYTES:
            return
        if b"\n" in buffer:
            check_header_lines(buffer, most_bytes=limits.header_line_bytes)
        elif searched <= limits.target_bytes + _CHECK_INTERVAL_BYTES:
            # Once or twice: the query of an exec may fill the head, and has passed the first check.
            request = incomplete_request(buffer)
            check_target_length(request.method, request.target, max_bytes=limits.target_bytes)
