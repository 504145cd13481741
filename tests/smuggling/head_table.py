"""What does a head say? Known ways to disagree, each with what has to become of it."""

from tests.smuggling.cases import Case, Fate
from tests.smuggling.generator import SMUGGLED
from tests.smuggling.writing import post, refused, served

_HEADS = [
    *(
        refused(f"first line {first!r}", post(b"", first=first))
        for first in (
            *(b"get / HTTP/1.1", b"FOO / HTTP/1.1", b"TRACE / HTTP/1.1", b"CONNECT a:1 HTTP/1.1"),
            *(b"GET / HTTP/2.0", b"GET / HTTP/1.2", b"GET / HTTP/0.9", b"GET /", b"GET / http/1.1"),
            *(
                b"GET  / HTTP/1.1",
                b"GET /  HTTP/1.1",
                b"GET\t/ HTTP/1.1",
                b"GET / HTTP/1.1 ",
                b" GET / HTTP/1.1",
                b"GET a:443 HTTP/1.1",
                b"GET api HTTP/1.1",
            ),
            *(
                b"GET /a b HTTP/1.1",
                b"GET /\x01 HTTP/1.1",
                b"GET /\xc3\xa9 HTTP/1.1",
                b"\r\nGET / HTTP/1.1",
            ),
            *(
                b"GET / HTTP/1.1\rX: y",
                b"GET / HTTP/1.1\nX: y",
                b"GET / HTTP/1.1\x00",
                b"GE\x00T / HTTP/1.1",
            ),
        )
    ),
    *(
        refused(f"line {line!r}", post(line + b"\r\n"))
        for line in (
            *(
                b"X : y",
                b" X: y",
                b"X\x00: y",
                b"X: y\x00z",
                b"\xffX: y",
                b"X\x80: y",
                b"X",
                b": y",
                b"X(: y",
            ),
            *(
                b"X: y\nHost: b",
                b"X: y\rHost: b",
                b"X: y\r",
                b"X: a\r\n b",
                b"X: a\r\n\tb",
                b"X: \x7f",
                b"X: \x0by",
            ),
            *(b"Host: b", b"host: a", b"Host : b", b"Upgrade: h2c", b"HTTP2-Settings: AAAA"),
        )
    ),
    refused("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    refused("no Host", b"GET /api HTTP/1.1\r\n\r\n"),
    refused("an empty Host", b"GET /api HTTP/1.1\r\nHost:\r\n\r\n"),
    refused("a Host with a user", b"GET /api HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    refused("bare line feeds", b"GET /api HTTP/1.1\nHost: a\n\n\r\n\r\n"),
    refused("bare carriage returns", b"GET /api HTTP/1.1\rHost: a\r\r\r\n\r\n"),
    refused("another expectation", post(b"Expect: 200-ok\r\nContent-Length: 5\r\n", b"hello")),
    Case("HTTP/1.0", post(b"", first=b"GET /api HTTP/1.0") + SMUGGLED, Fate.SERVED, 1),
    Case("a last request", post(b"Connection: close\r\n") + SMUGGLED, Fate.SERVED, 1),
    Case(
        "a last request, said in between",
        post(b"Connection: x,close ,y\r\n") + SMUGGLED,
        Fate.SERVED,
        1,
    ),
    Case("half a head", b"GET /api HTTP/1.1\r\nHost: a\r\nX: ", Fate.UNFINISHED),
    Case("a head without its end", b"GET /api HTTP/1.1\r\nHost: a\r\n", Fate.UNFINISHED),
    Case("HTTP/0.9", b"GET /api\r\n", Fate.UNFINISHED),
    served("bytes above ASCII in a value", post(b"X: \xc3\xa9\xff\r\n")),
    served("every character of a name", post(b"!#$%&'*+-.^_`|~09azAZ: y\r\n")),
    served("empty values", post(b"X:\r\nX: \r\nX:\t\r\n")),
    served("an expectation", post(b"Expect: 100-continue\r\nContent-Length: 5\r\n", b"hello")),
    served("an upgrade that is none", post(b"Connection: xupgradex\r\nUpgrade: websocket\r\n")),
    Case(
        "identity lines by look-alikes",
        post(b"Impersonate_User: root\r\nX-Remote-User: root\r\n") + SMUGGLED,
        Fate.SERVED,
        1,
    ),
    served(
        "Connection names our headers",
        post(b"Connection: Impersonate-User, Authorization, Host\r\n"),
    ),
    served("several requests", post(b"Content-Length: 5\r\n", b"hello") * 20, 20),
]

# Refused one by one, and the connection goes on: only the target is at fault, not the framing.
_TARGETS = [
    Case(
        f"target {target!r}",
        post(b"", first=b"GET %b HTTP/1.1" % target) + SMUGGLED,
        Fate.SERVED,
        1,
    )
    for target in (
        *(
            b"*",
            b"http://b/api",
            b"https://127.0.0.1/api",
            b"/api#x",
            b"/api?x#y",
        ),
        *(b"/api/%zz", b"/api/%", b"/api/%0", b"/api/%00", b"/api/%ff", b"/api/%0d%0a"),
    )
] + [
    served(f"target {target!r}", post(b"", first=b"GET %b HTTP/1.1" % target))
    for target in (
        *(
            b"//b/api",
            b"/api/../x",
            b"/api/%2e%2e/%2F",
            b"/api;x",
            b"/api?",
            b"/api??",
            b"/api?a&&b=%20",
        ),
        *(b"/api/!$&'()*+,=:@-._~", b'/api/"<>\\^`{|}', b"/api/%E2%82%AC?%zz", b"/" + b"a" * 8000),
    )
]

_EXEC = b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1"
_UPGRADES = [
    Case(
        "an upgrade",
        post(b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", first=_EXEC),
        Fate.SERVED,
        1,
    ),
    Case(
        "bytes behind an upgrade",
        post(b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", SMUGGLED, first=_EXEC),
    ),
    Case(
        "bytes behind an upgrade that is not granted",
        post(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", SMUGGLED),
        Fate.SERVED,
        1,
    ),
    refused(
        "an upgrade with a body",
        post(b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n", b"hello"),
    ),
]

HEADS = [*_HEADS, *_TARGETS, *_UPGRADES]
