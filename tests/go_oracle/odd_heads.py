"""Header lines as attackers write them: what two readers of HTTP might read differently."""

from random import Random

_VERSIONS = (b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/1.1 ", b"http/1.1", b"HTTP/1.10", b"")
_LINES = (
    # Whose body, and how long?
    b"Content-Length: 0\r\n",
    b"Content-Length: 0\r\nContent-Length: 0\r\n",
    b"Content-Length: 0, 0\r\n",
    b"Content-Length: +0\r\n",
    b"Content-Length: 0x0\r\n",
    b"Content-Length: -0\r\n",
    b"Content-Length:\r\n",
    b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding: \x0bchunked\r\n",
    b"Transfer-Encoding: Chunked\r\n",
    # Where does a line end, and is it a line?
    b"X: a\nImpersonate-User: root\r\n",
    b"X: a\rImpersonate-User: root\r\n",
    b"X: a\r\n Impersonate-User: root\r\n",
    b"X: a\r\n\tImpersonate-User: root\r\n",
    b"X: a\r\r\n",
    b"Impersonate-User\r\n",
    b"no colon\r\n",
    b": nameless\r\n",
    b"\x00\r\n",
    # Where does a name end?
    b"Impersonate-User : root\r\n",
    b"Impersonate-User\t: root\r\n",
    b" Impersonate-User: root\r\n",
    b"Impersonate User: root\r\n",
    b"Impersonate-User\x00: root\r\n",
    b"Impersonate-Us\xc5\xbfr: root\r\n",
    b"\xffX: a\r\n",
    b"X\x80: a\r\n",
    b"X(): a\r\n",
    # What may a value hold?
    b"X: a\x00b\r\n",
    b"X: a\x7f\r\n",
    b"X: a\x1bb\r\n",
    b"X: \xff\xfe\r\n",
    b"X:\r\n",
    b"X:a:b\r\n",
    b"X: \t a \t \r\n",
    b"X: \x0ba\x0c\r\n",
    b"X: \xc2\xa0a\xc2\xa0\r\n",
    # Headers that the reader itself obeys.
    b"Host: other\r\n",
    b"Host:\r\n",
    b"Host: a b\r\n",
    b"Expect: 100-continue\r\n",
    b"Expect: something\r\n",
    b"Connection: close\r\n",
    b"Connection: Impersonate-User\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
    b"Trailer: Impersonate-User\r\n",
)


def make_version(random: Random) -> bytes:
    """Return the end of a request line that is not the usual one."""
    return random.choice(_VERSIONS)


def make_odd_lines(random: Random) -> bytes:
    """Return lines that go into a head exactly so."""
    return random.choice(_LINES)
