"""Where does a body end? Known ways to disagree, each with what has to become of it."""

from tests.smuggling.cases import Case, Fate
from tests.smuggling.generator import SMUGGLED
from tests.smuggling.writing import post, refused, served

_CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"


def _chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked\r\n", body)


_LENGTHS = [
    refused(
        "length and coding", post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", _CHUNKED)
    ),
    refused(
        "coding and length", post(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", _CHUNKED)
    ),
    refused(
        "length and a blank coding", post(b"Content-Length: 5\r\nTransfer-Encoding:\r\n", b"hello")
    ),
    *(
        refused(f"length {value!r}", post(b"Content-Length: %b\r\n" % value, b"hello"))
        for value in (
            *(b"+5", b"-5", b"5, 5", b"5,", b"5 5", b"0x5", b"5a", b"5;", b"5.0", b"", b'"5"'),
            *(b"\x0b5", b"5\x00", b"\xd9\xa5", b"5_0", b"1e1", b"18446744073709551616"),
        )
    ),
    *(
        served(f"length {value!r}", post(b"Content-Length: %b\r\n" % value, b"hello"))
        for value in (b"5", b"05", b"0" * 40 + b"5", b"0" * 5000 + b"5", b" 5", b"5 ", b"\t5\t")
    ),
    refused("two lengths", post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello")),
    refused("a length twice", post(b"Content-Length: 5\r\ncontent-length: 5\r\n", b"hello")),
    served("a look-alike of a length", post(b"Content_Length: 42\r\n")),
    served(
        "a length that Connection names",
        post(b"Connection: Content-Length\r\nContent-Length: 5\r\n", b"hello"),
    ),
    served("a length of nothing", post(b"Content-Length: 0\r\n")),
    served(
        "a GET with a body", post(b"Content-Length: 5\r\n", b"hello", first=b"GET /api HTTP/1.1")
    ),
    Case(
        "a body shorter than its length",
        post(b"Content-Length: 50\r\n", b"hello"),
        Fate.UNFINISHED,
    ),
    Case(
        "a huge length",
        post(b"Content-Length: 9223372036854775807\r\n", b"hello"),
        Fate.UNFINISHED,
    ),
    Case(
        "a body longer than its length",
        post(b"Content-Length: 4\r\n", b"hello"),
        Fate.UNFINISHED,
        1,
    ),
    Case("garbage behind a body", post(b"Content-Length: 4\r\n", b"hello\r\n\r\n"), Fate.ANY, 1),
]

_CODINGS = [
    *(
        refused(f"coding {value!r}", post(b"Transfer-Encoding: %b\r\n" % value, _CHUNKED))
        for value in (
            *(
                b"identity, chunked",
                b"gzip, chunked",
                b"chunked, identity",
                b"xchunked",
                b"chunkedx",
            ),
            *(
                b"identity",
                b"gzip",
                b"chunked, chunked",
                b"chunked;q=1",
                b"\x0bchunked",
                b"\x0cchunked",
            ),
            *(
                b"chunked\x00",
                b"chunked\x0b",
                b'"chunked"',
                b"",
                b",chunked",
                b"chunked,",
                b"chun ked",
            ),
            *(
                b"chunked \t",
                b"\xc2\xa0chunked",
                b"chunked\xa0",
                b"chunked\r\n identity",
                b"\r\n chunked",
            ),
        )
    ),
    *(
        served(f"coding {value!r}", post(b"Transfer-Encoding: %b\r\n" % value, _CHUNKED))
        for value in (b"chunked", b"CHUNKED", b"Chunked", b"\tchunked")
    ),
    served("a coding without a blank", post(b"transfer-encoding:chunked\r\n", _CHUNKED)),
    refused(
        "two codings",
        post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", _CHUNKED),
    ),
    refused(
        "another coding first",
        post(b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", _CHUNKED),
    ),
    refused("a blank before the colon", post(b"Transfer-Encoding : chunked\r\n", _CHUNKED)),
    refused("a tab before the colon", post(b"Transfer-Encoding\t: chunked\r\n", _CHUNKED)),
    refused(
        "a coding in a folded line", post(b"X: y\r\n Transfer-Encoding: chunked\r\n", _CHUNKED)
    ),
    refused(
        "a coding behind a bare line feed", post(b"X: y\nTransfer-Encoding: chunked\r\n", _CHUNKED)
    ),
    refused(
        "a coding behind a bare carriage return",
        post(b"X: y\rTransfer-Encoding: chunked\r\n", _CHUNKED),
    ),
    refused(
        "a coding in HTTP/1.0",
        post(b"Transfer-Encoding: chunked\r\n", _CHUNKED, first=b"POST /api HTTP/1.0"),
    ),
    served("a look-alike of a coding", post(b"Transfer_Encoding: chunked\r\n")),
]

_CHUNKS = [
    *(
        refused(f"chunks {body!r}", _chunked(body))
        for body in (
            *(
                b"0x5\r\nhello\r\n0\r\n\r\n",
                b"+5\r\nhello\r\n0\r\n\r\n",
                b"-5\r\nhello\r\n0\r\n\r\n",
            ),
            *(b" 5\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n"),
            *(b"5\rhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n"),
            *(b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
            *(b"5;a\x00\r\nhello\r\n0\r\n\r\n", b"5\x00\r\nhello\r\n0\r\n\r\n"),
            *(
                b"\r\n5\r\nhello\r\n0\r\n\r\n",
                b";\r\nhello\r\n0\r\n\r\n",
                b"5_\r\nhello\r\n0\r\n\r\n",
            ),
            *(b"10000000000000000\r\nhello\r\n0\r\n\r\n", b"4\r\nhello\r\n0\r\n\r\n"),
            *(b"5\r\nhello\r\n0\n\r\n", b"5\r\nhello\r\n0\r\nX: y\n\r\n", b"5\r\nhello\r\n0\r\n\n"),
            b"5;" + b"a" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
        )
    ),
    *(
        served(f"chunks {body!r}", _chunked(body))
        for body in (
            *(b"5\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"0000000005\r\nhello\r\n0\r\n\r\n"),
            *(
                b"5;a=b\r\nhello\r\n0;c\r\n\r\n",
                b'5 ;a="b"\r\nhello\r\n0\r\n\r\n',
                b"5 \r\nhello\r\n0\r\n\r\n",
            ),
            *(
                b"5\r\nhello\r\n00\r\n\r\n",
                b"a\r\nhello\r\n0\r\n\r\n0\r\n\r\n",
                b"2\r\n\r\n\r\n0\r\n\r\n",
            ),
            b"5\r\nhello\r\n0\r\nImpersonate-User: root\r\nContent-Length: 42\r\n\r\n",
            b"5\r\nhello\r\n0\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
        )
    ),
    Case(
        "a chunk longer than all that comes", _chunked(b"ff\r\nhello\r\n0\r\n\r\n"), Fate.UNFINISHED
    ),
    Case("no last chunk", _chunked(b"5\r\nhello\r\n"), Fate.UNFINISHED),
    Case("half a last chunk", _chunked(b"5\r\nhello\r\n0\r\n"), Fate.UNFINISHED),
]

FRAMING = [*_LENGTHS, *_CODINGS, *_CHUNKS]
