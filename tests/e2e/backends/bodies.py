"""Answers with odd bodies: bombs, documents that are hard to read, slow and early ones."""

import gzip
import zlib

from tests.e2e.backends.answers import FINAL, GZIPPED, JSON, MEBIBYTE, Case, answer, keeping
from tests.e2e.backends.stage import Request
from tests.support.hostile_backend import Script, Then

_PAGE = b'<html><head></head><body><a href="/api/v1/secrets">x</a><img src="b.png"></body></html>'
_ZEROS = bytes(32 * MEBIBYTE)
_DEEP = b"[" * 100_000
BODIES = {
    "html-with-links": keeping(answer("Content-Type: text/html", body=_PAGE)),
    "html-in-gzip": Case(
        Script(
            (
                answer(
                    "Content-Type: text/html", "Content-Encoding: gzip", body=gzip.compress(_PAGE)
                ),
            )
        ),
        GZIPPED,
    ),
    "html-in-gzip-that-is-none": Case(
        Script((answer("Content-Type: text/html", "Content-Encoding: gzip", body=_PAGE),)), GZIPPED
    ),
    "html-malformed": keeping(answer("Content-Type: text/html", body=b"<a <b <c \xff\x00" * 2000)),
    "gzip-bomb-that-the-client-asked-for": Case(
        Script((answer("Content-Encoding: gzip", body=gzip.compress(_ZEROS, 9)),)), GZIPPED
    ),
    "gzip-bomb-unpacked-by-the-api-server": Case(
        Script((answer("Content-Encoding: gzip", body=gzip.compress(_ZEROS, 9)),)),
        routes=("service",),
    ),
    "gzip-that-is-none": keeping(answer("Content-Encoding: gzip", body=b"hello")),
    "gzip-bomb-as-an-error": Case(
        Script(
            (
                answer(
                    f"Content-Type: {JSON}",
                    "Content-Encoding: gzip",
                    status="500 Internal Server Error",
                    body=gzip.compress(b'{"kind":"Status","a":"' + _ZEROS),
                ),
            )
        ),
        GZIPPED,
        ("aggregated", "service"),
    ),
    "deflate-unasked": keeping(answer("Content-Encoding: deflate", body=zlib.compress(b"hello"))),
    "encoding-unknown": keeping(answer("Content-Encoding: br, x-odd")),
    "json-of-100000-levels": keeping(answer(f"Content-Type: {JSON}", body=_DEEP)),
    "json-of-100000-levels-as-an-error": keeping(
        answer(f"Content-Type: {JSON}", status="500 Error", body=b'{"kind":"Status","a":' + _DEEP)
    ),
    "json-with-a-number-of-100000-digits": keeping(
        answer(
            f"Content-Type: {JSON}",
            status="409 Conflict",
            body=b'{"kind":"Status","code":' + b"1" * 100_000 + b"}",
        )
    ),
    "slow-body": Case(
        Script((answer("Content-Length: 50", body=b"", length=False), *(0.05, b"hello") * 10)),
        routes=("node", "aggregated", "log"),
    ),
    "early-answer-to-a-body": Case(
        Script((FINAL,), reads_body_first=False), Request("POST", body=b"x" * 100)
    ),
    "early-answer-to-2-megabytes": Case(
        Script((answer("Connection: close"),), Then.CLOSE, reads_body_first=False),
        Request("POST", body=b"x" * 2 * MEBIBYTE),
    ),
    "early-refusal-of-2-megabytes": Case(
        Script(
            (answer("Connection: close", status="413 Too Large"),),
            Then.CLOSE,
            reads_body_first=False,
        ),
        Request("PUT", body=b"x" * 2 * MEBIBYTE),
    ),
}
