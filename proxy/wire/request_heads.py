"""The request heads of one connection, which are mostly the same but for the target."""

import re

from proxy.wire.body import NO_BODY
from proxy.wire.head import RequestHead, parse_request_head

# Less than a request line may be, and nothing that any two readers could take differently.
_PLAIN_LINE = re.compile(rb"([A-Z]+) (/[-A-Za-z0-9._~!$&'()*+,;=:@%/?]*) HTTP/1\.1")
_LONGEST_REMEMBERED_LINES = 4096


class RequestHeads:
    """Reads the request heads of one connection.

    A client sends the same header lines again and again and changes only the target. Lines that
    equal those before, byte for byte, mean the same. Only the plainest requests are read in this
    way (no body, no upgrade, nothing odd in the target); any other one is read from its beginning.
    The lines, a token among them perhaps, are kept no longer than their connection.
    """

    __slots__ = ("_last", "_lines")

    def __init__(self) -> None:
        self._last: RequestHead | None = None
        self._lines = b""

    def read(self, head: bytes) -> RequestHead:
        """Read one whole request head; anything doubtful in it is a 400."""
        first_line, _, lines = head.partition(b"\r\n")
        last = self._last
        if last is not None and lines == self._lines:
            plain = _PLAIN_LINE.fullmatch(first_line)
            if plain is not None and plain[1] == last.method:
                return RequestHead(
                    last.method, plain[2], 1, last.headers, NO_BODY, keep_alive=last.keep_alive
                )
        request = parse_request_head(head)
        is_short = len(lines) <= _LONGEST_REMEMBERED_LINES
        self._last, self._lines = (
            (request, lines) if is_short and _is_plain(request) else (None, b"")
        )
        return request


def _is_plain(request: RequestHead) -> bool:
    """Tell whether a request is all head, and asks for nothing but an answer."""
    return (
        request.minor_version == 1
        and request.framing is NO_BODY
        and request.upgrade is None
        and not request.expects_continue
    )
