"""The request heads of one connection, which repeat themselves, in part or as a whole."""

import re

from proxy.wire.body import NO_BODY
from proxy.wire.head import MAX_HEAD_BYTES, RequestHead, parse_request_head

# Less than a request line may be, and nothing that any two readers could take differently.
_PLAIN_LINE = re.compile(rb"([A-Z]+) (/[-A-Za-z0-9._~!$&'()*+,;=:@%/?]*) HTTP/1\.1")
_LONGEST_REMEMBERED_LINES = 4096
_LONGEST_REMEMBERED_LINE = 1024
_MOST_REMEMBERED = 16


class RequestHeads:
    """Reads the request heads of one connection.

    A client sends the same header lines again and again and changes at most the target. Lines that
    equal those before, byte for byte, mean the same. Only the plainest requests are read in this
    way (no body, no upgrade, nothing odd in the target); any other one is read from its beginning.
    Heads that are equal as a whole are one value, so what is noted on it is found again. All of it,
    a token among it perhaps, is kept no longer than the connection.
    """

    __slots__ = ("_known", "_last", "_lines")

    def __init__(self) -> None:
        self._last: RequestHead | None = None
        self._lines = b""
        # Those with the same lines as the last one, by their first line.
        self._known: dict[bytes, RequestHead] = {}

    def known(self, data: bytes) -> RequestHead | None:
        """Return the request whose whole head this is, and nothing else, if its lines are known.

        Lines that are known end where their head does, so nobody has to look for its end.
        """
        first_line, _, lines = data.partition(b"\r\n")
        if lines != self._lines or not lines or len(data) > MAX_HEAD_BYTES:
            return None
        return self._known.get(first_line) or self._read_plain(first_line)

    def read(self, head: bytes) -> RequestHead:
        """Read one whole request head; anything doubtful in it is a 400."""
        known = self.known(head)
        if known is not None:
            return known
        request = parse_request_head(head)
        first_line, _, lines = head.partition(b"\r\n")
        self.forget()
        if len(lines) <= _LONGEST_REMEMBERED_LINES and _is_plain(request):
            request = request._replace(notes={})
            self._last, self._lines = request, lines
            self._keep(first_line, request)
        return request

    def forget(self) -> None:
        """Let go of what is remembered, where it is long until the next request, if one comes."""
        self._known.clear()
        self._last, self._lines = None, b""

    def _read_plain(self, first_line: bytes) -> RequestHead | None:
        """Return a request with the lines of the last one, if its first line is a plain one."""
        last, plain = self._last, _PLAIN_LINE.fullmatch(first_line)
        if last is None or plain is None or plain[1] != last.method:
            return None
        request = RequestHead(
            last.method, plain[2], 1, last.headers, NO_BODY, keep_alive=last.keep_alive, notes={}
        )
        self._keep(first_line, request)
        return request

    def _keep(self, first_line: bytes, request: RequestHead) -> None:
        if len(first_line) <= _LONGEST_REMEMBERED_LINE:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[first_line] = request


def _is_plain(request: RequestHead) -> bool:
    """Tell whether a request is all head, and asks for nothing but an answer."""
    return (
        request.minor_version == 1
        and request.framing is NO_BODY
        and request.upgrade is None
        and not request.expects_continue
    )
