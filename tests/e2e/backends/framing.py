"""Answers whose end is in doubt: odd framing, no body where one is, interim answers."""

from tests.e2e.backends.answers import (
    ALL,
    CHUNK,
    FINAL,
    HEAD_REQUEST,
    IDENTITY_LINES,
    MEBIBYTE,
    NEVER_SEEN,
    SMUGGLED,
    TRAILERS,
    Case,
    answer,
    chunked,
    closing,
    flushed,
    interim_head,
    keeping,
)
from tests.e2e.backends.stage import Request
from tests.support.hostile_backend import Script, Then

FRAMING = {
    "length-twice-equal": closing(answer("Content-Length: 5")),
    "length-twice-different": closing(answer("Content-Length: 3")),
    "length-list": closing(answer("Content-Length: 5, 5", length=False)),
    "length-negative": closing(answer("Content-Length: -5", length=False)),
    "length-with-sign": closing(answer("Content-Length: +5", length=False)),
    "length-beyond-64-bits": closing(answer("Content-Length: 18446744073709551621", length=False)),
    "length-hexadecimal": closing(answer("Content-Length: 0x5", length=False)),
    "length-empty": closing(answer("Content-Length:", length=False)),
    "length-and-chunked": closing(answer("Transfer-Encoding: chunked", body=CHUNK + b"0\r\n\r\n")),
    "chunked-twice": closing(chunked(CHUNK, lines=("Transfer-Encoding: chunked",))),
    "chunked-and-identity": closing(
        answer("Transfer-Encoding: identity, chunked", body=CHUNK + b"0\r\n\r\n", length=False)
    ),
    "chunked-over-gzip": closing(
        answer("Transfer-Encoding: gzip, chunked", body=CHUNK + b"0\r\n\r\n", length=False)
    ),
    "chunk-extension": keeping(chunked(b'5;a="b";c=d\r\nhello\r\n')),
    "chunk-extension-of-60-kilobytes": closing(chunked(b"5;%b\r\nhello\r\n" % (b"x" * 60_000))),
    "chunk-size-beyond-64-bits": closing(chunked(b"FFFFFFFFFFFFFFFFF\r\nhello\r\n")),
    "chunk-size-negative": closing(chunked(b"-5\r\nhello\r\n")),
    "chunk-size-with-blanks": closing(chunked(b"5 \t\r\nhello\r\n")),
    "chunk-with-bare-line-feeds": closing(chunked(b"5\nhello\n", end=b"0\n\n")),
    "chunk-too-long-for-its-size": closing(chunked(b"3\r\nhello\r\n")),
    "chunks-without-an-end": closing(chunked(CHUNK, end=b"")),
    "chunks-after-a-flush-without-an-end": flushed(chunked(CHUNK, end=b"")),
    "chunks-of-one-byte": keeping(chunked(*(b"1\r\n%c\r\n" % (97 + n % 26) for n in range(20000)))),
    "trailers-announced": keeping(
        chunked(CHUNK, end=TRAILERS, lines=("Trailer: Impersonate-User, Audit-Id, X-Trailer",))
    ),
    "trailers-not-announced": keeping(chunked(CHUNK, end=TRAILERS)),
    "trailers-of-200-kilobytes": closing(
        chunked(CHUNK, end=b"0\r\n" + b"X-T: %b\r\n" % (b"x" * 2000) * 100 + b"\r\n")
    ),
    "trailers-malformed": closing(chunked(CHUNK, end=b"0\r\n: x\r\nno colon\r\n\r\n")),
    "body-shorter-than-its-length": closing(answer("Content-Length: 50", length=False)),
    "body-shorter-after-a-flush": flushed(answer("Content-Length: 50", length=False)),
    "body-longer-than-its-length": closing(answer("Content-Length: 2", length=False)),
    "body-of-1-megabyte-cut-in-the-middle": closing(
        answer("Content-Length: 2097152", body=b"x" * MEBIBYTE, length=False)
    ),
    "reset-in-the-body": flushed(answer("Content-Length: 50", length=False), then=Then.RESET),
    "reset-without-a-byte": Case(Script((), Then.RESET), routes=ALL),
    "closed-without-a-byte": closing(),
    "head-cut": closing(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "second-answer-behind-the-first": keeping(FINAL + SMUGGLED),
    "second-answer-behind-the-last-chunk": keeping(chunked(CHUNK) + SMUGGLED),
    "second-answer-behind-a-204": keeping(
        answer(status="204 No Content", body=b"", length=False) + SMUGGLED
    ),
    "second-answer-in-the-body": keeping(
        answer(
            "Content-Type: text/plain", body=SMUGGLED.replace(NEVER_SEEN, b"seen as a body too..")
        )
    ),
    "second-answer-in-a-chunk": keeping(
        chunked(b"%x\r\n%b\r\n" % (len(FINAL), FINAL), lines=("Content-Type: text/plain",))
    ),
    "until-the-connection-ends": closing(answer(length=False)),
    "until-the-connection-ends-1.0": closing(answer(length=False, version="HTTP/1.0")),
    "kept-alive-1.0": keeping(answer("Connection: keep-alive", version="HTTP/1.0")),
    "chunked-1.0": closing(
        answer(
            "Transfer-Encoding: chunked",
            body=CHUNK + b"0\r\n\r\n",
            length=False,
            version="HTTP/1.0",
        )
    ),
    "no-head-at-all-0.9": closing(b"<html>hello</html>\n"),
}

BODILESS = {
    "204-with-a-body": keeping(answer(status="204 No Content")),
    "204-in-chunks": keeping(chunked(CHUNK).replace(b"200 OK", b"204 No Content")),
    "205-with-a-body": keeping(answer(status="205 Reset Content")),
    "304-with-a-body": keeping(answer('ETag: "a"', status="304 Not Modified")),
    "304-with-the-length-of-another-body": keeping(
        answer("Content-Length: 999", status="304 Not Modified", body=b"", length=False)
    ),
    "head-with-a-body": Case(Script((FINAL,)), HEAD_REQUEST),
    "head-with-a-length-only": Case(
        Script((answer("Content-Length: 999999", body=b"", length=False),)), HEAD_REQUEST
    ),
    "head-in-chunks": Case(Script((chunked(CHUNK),)), HEAD_REQUEST),
    "head-with-a-second-answer": Case(
        Script((answer("Content-Length: 73", body=SMUGGLED, length=False),)), HEAD_REQUEST
    ),
}

INTERIM = {
    "100-unasked": keeping(interim_head("100 Continue") + FINAL),
    "102": keeping(interim_head("102 Processing"), 0.1, FINAL),
    "103-with-identity-headers": keeping(
        interim_head("103 Early Hints", "Link: </a>; rel=preload", *IDENTITY_LINES) + FINAL
    ),
    "103-with-a-length": keeping(interim_head("103 Early Hints", "Content-Length: 50") + FINAL),
    "103-in-chunks": keeping(interim_head("103 Early Hints", "Transfer-Encoding: chunked") + FINAL),
    "199": keeping(interim_head("199 Odd") + FINAL),
    "103-a-hundred-times": keeping(interim_head("103 Early Hints", "Link: </a>") * 100 + FINAL),
    "103-two-hundred-times": Case(
        Script((interim_head("103 Early Hints") * 200 + FINAL,)),
        routes=("service",),
        is_refused=True,
    ),
    "103-and-nothing-else": closing(interim_head("103 Early Hints", "Link: </a>")),
    "100-for-a-request-that-waits-for-it": Case(
        Script((interim_head("100 Continue") * 3, FINAL)),
        Request("POST", (("Expect", "100-continue"),), b"x" * 100),
    ),
    "101-unasked": closing(
        interim_head("101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket")
        + SMUGGLED
    ),
    "101-unasked-without-upgrade": closing(interim_head("101 Switching Protocols") + SMUGGLED),
    "101-unasked-in-http-2": closing(
        interim_head("101 Switching Protocols", "Connection: Upgrade", "Upgrade: h2c") + SMUGGLED
    ),
    "upgrade-without-101": keeping(answer("Connection: Upgrade", "Upgrade: websocket")),
}
