"""The request heads of one connection, which repeat themselves, in part or as a whole."""

import re

from proxy.wire.http1.body import NO_BODY, BodyKind
from proxy.wire.http1.message import RequestHead, parse_request_head

# Less than a request line may be, and nothing that any two readers could take differently.
_PLAIN_LINE = re.compile(rb"([A-Z]+) (/[-A-Za-z0-9._~!$&'()*+,;=:@%/?]*) HTTP/1\.1")
# Room for a token and for a hundred groups, or twice that.
_LONGEST_REMEMBERED_LINES = 8192
_LONGEST_WITH_BODY = 4096
_MOST_REMEMBERED_HEADERS = 256
_LONGEST_REMEMBERED_LINE = 1024
# What one connection may keep us holding: a few sets of lines, and requests with any of them.
_MOST_REMEMBERED_SETS = 4
_MOST_REMEMBERED_BYTES = 12 * 1024
_MOST_REMEMBERED = 16
# Nothing of a larger head is remembered, so nothing of it is looked up: that would copy all of it.
_LARGEST_KNOWN_HEAD = 16 * 1024


class _HeaderBlock:
    """Header lines that came before, and the requests that had them, by their first line."""

    __slots__ = ("first", "lines", "requests")

    def __init__(self, lines: bytes, first: RequestHead) -> None:
        self.lines = lines
        self.first = first
        self.requests: dict[bytes, RequestHead] = {}


class CachingRequestParser:
    """Reads the request heads of one connection.

    A client sends the same few sets of header lines again and again and changes the target. Lines
    that equal earlier ones, byte for byte, mean the same. Only the plainest requests are read in
    this way (no upgrade, nothing odd in the target, a body by its length or none); any other one
    is read from its beginning. Heads without a body that are equal as a whole are one value, so
    what is noted on it is found again. All of it, a token among it perhaps, is kept no longer than
    the connection.
    """

    __slots__ = ("_kept", "_last", "_repeated", "_with_body")

    def __init__(self) -> None:
        self._repeated: dict[bytes, _HeaderBlock] = {}
        # The lines of the last request: comparing with them is cheaper than looking lines up.
        self._last: _HeaderBlock | None = None
        # Apart from the others, and but one: a length is among these lines, and where that changes
        # with every request it must make nobody else forgotten.
        self._with_body: _HeaderBlock | None = None
        self._kept = 0

    def parse_cached(self, data: bytes) -> RequestHead | None:
        """Return the request whose whole head this is, and nothing else, if its lines are known.

        Lines that are known end where their head does, so nobody has to look for its end.
        """
        if len(data) > _LARGEST_KNOWN_HEAD:
            return None
        first_line, _, lines = data.partition(b"\r\n")
        same = self._last
        if same is None or same.lines != lines:
            same = self._last = self._repeated.get(lines)
        if same is None:
            return None
        return same.requests.get(first_line) or self._read_plain(same, first_line)

    def parse(self, head: bytes) -> RequestHead:
        """Read one whole request head; anything doubtful in it is a 400."""
        if len(head) > _LARGEST_KNOWN_HEAD:
            return parse_request_head(head)
        known = self.parse_cached(head)
        if known is not None:
            return known
        first_line, _, lines = head.partition(b"\r\n")
        known = self._known_with_body(first_line, lines)
        if known is not None:
            return known
        request = parse_request_head(head)
        if not _is_plain(request):
            return request
        if request.framing is not NO_BODY:
            if len(lines) <= _LONGEST_WITH_BODY:
                self._with_body = _HeaderBlock(lines, request)
        elif len(lines) <= _LONGEST_REMEMBERED_LINES:
            request = request._replace(notes={})
            self._keep(self._remember(lines, request), first_line, request)
        return request

    def clear(self) -> None:
        """Let go of what is remembered, where it is long until the next request, if one comes."""
        self._repeated.clear()
        self._last = self._with_body = None
        self._kept = 0

    def _remember(self, lines: bytes, request: RequestHead) -> _HeaderBlock:
        repeated = self._repeated
        same = repeated.get(lines)
        if same is None:
            held = len(lines) + sum(map(len, repeated))
            if len(repeated) >= _MOST_REMEMBERED_SETS or held > _MOST_REMEMBERED_BYTES:
                self.clear()
            same = self._last = repeated[lines] = _HeaderBlock(lines, request)
        return same

    def _known_with_body(self, first_line: bytes, lines: bytes) -> RequestHead | None:
        """Return a request with a body whose lines came with the last one, its length among them.

        Nothing is noted on it: what becomes of it depends on more than its head.
        """
        same = self._with_body
        if same is None or same.lines != lines or len(first_line) > _LONGEST_REMEMBERED_LINE:
            return None
        return _elsewhere(same.first, first_line)

    def _read_plain(self, same: _HeaderBlock, first_line: bytes) -> RequestHead | None:
        """Return a request with lines that came before, if its first line is a plain one."""
        request = _elsewhere(same.first, first_line)
        if request is not None:
            self._keep(same, first_line, request)
        return request

    def _keep(self, same: _HeaderBlock, first_line: bytes, request: RequestHead) -> None:
        if len(first_line) > _LONGEST_REMEMBERED_LINE:
            return
        if self._kept >= _MOST_REMEMBERED:
            for repeated in self._repeated.values():
                repeated.requests.clear()
            self._kept = 0
        same.requests[first_line] = request
        self._kept += 1


def _elsewhere(first: RequestHead, first_line: bytes) -> RequestHead | None:
    """Return the request of that first line and all other lines of another, if it is plain."""
    plain = _PLAIN_LINE.fullmatch(first_line)
    if plain is None or plain[1] != first.method:
        return None
    return RequestHead(
        first.method,
        plain[2],
        1,
        first.headers,
        first.framing,
        keep_alive=first.keep_alive,
        notes=None if first.notes is None else {},
    )


def _is_plain(request: RequestHead) -> bool:
    """Tell whether a request has a body by its length or none, and asks for but an answer."""
    return (
        request.minor_version == 1
        and len(request.headers) <= _MOST_REMEMBERED_HEADERS
        and (request.framing is NO_BODY or request.framing.kind is BodyKind.LENGTH)
        and request.upgrade is None
        and not request.expects_continue
    )
