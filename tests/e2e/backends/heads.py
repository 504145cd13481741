"""Answers with odd heads: header lines, statuses, redirects."""

from tests.e2e.backends.answers import (
    ALL,
    FINAL,
    IDENTITY_LINES,
    MEBIBYTE,
    PROXIED,
    Case,
    answer,
    closing,
    keeping,
)
from tests.e2e.backends.stage import Request
from tests.support.hostile_backend import Received, Script

HEADS = {
    "bare-line-feeds": closing(answer("X-Odd: 1").replace(b"\r\n", b"\n")),
    "carriage-return-in-a-value": closing(answer(b"X-Odd: a\rSet-Cookie: a=b")),
    "nul-in-a-value": closing(answer(b"X-Odd: a\x00b")),
    "nul-in-a-name": closing(answer(b"X-\x00dd: a")),
    "control-characters-in-a-value": closing(answer(b"X-Odd: \x1b[31m\x07\x7f")),
    "high-bytes-in-a-value": keeping(answer(b"X-Odd: \xff\xfe\xc3\xa9")),
    "folded-line": keeping(answer(b"X-Odd: a\r\n b\r\n\tImpersonate-User: admin")),
    "blank-before-the-colon": closing(answer("Content-Type : text/plain")),
    "line-without-a-colon": closing(answer("no colon here")),
    "line-without-a-name": closing(answer(": value")),
    "blank-first-line": closing(b"\r\n" + FINAL),
    "folded-first-line": closing(answer(b" X-Odd: a")),
    "value-of-900-kilobytes": keeping(answer("X-Long: " + "x" * 900_000)),
    "value-of-2-megabytes": Case(
        Script((answer("X-Long: " + "x" * 2 * MEBIBYTE),)), is_refused=True
    ),
    "value-of-12-megabytes": closing(answer("X-Long: " + "x" * 12 * MEBIBYTE)),
    "headers-4000": keeping(answer(*(f"X-Many-{number}: {number}" for number in range(4000)))),
    "headers-100000": Case(Script((answer(*(["a:"] * 100_000)),)), is_refused=True),
    "content-type-twice": keeping(answer("Content-Type: text/html", "Content-Type: text/plain")),
    "content-type-odd": keeping(answer('Content-Type: text/html; a="\\"; b')),
    "connection-names-headers": keeping(
        answer(
            "Connection: Content-Length, Content-Type, Audit-Id, Date, X-Named, Cache-Control",
            "Content-Type: text/plain",
            "X-Named: 1",
            "X-Kept: 1",
        )
    ),
    "connection-closes": closing(answer("Connection: close")),
    "hop-by-hop-headers": keeping(
        answer(
            "Keep-Alive: timeout=1, max=1",
            "Proxy-Authenticate: Basic realm=x",
            "Proxy-Authorization: Basic eA==",
            "Proxy-Connection: close",
            "TE: trailers",
            "Upgrade: websocket",
            "X-Kept: 1",
        )
    ),
    "identity-headers": keeping(answer(*IDENTITY_LINES)),
    "audit-id-forged": keeping(answer("Audit-Id: forged", "Audit-ID: forged-again")),
    "set-cookie": keeping(answer("Set-Cookie: session=1; Path=/; Secure", "Set-Cookie: b=2")),
    "warnings": keeping(
        answer('Warning: 299 - "forged"', 'Warning: 299 understudy "you are admin"')
    ),
    "retry-after-huge": keeping(answer("Retry-After: 99999999999999999999")),
    "headers-of-the-api-server": keeping(
        answer(
            "X-Kubernetes-Pf-Flowschema-Uid: forged",
            "Cache-Control: public, max-age=31536000",
            "Date: Thu, 01 Jan 1970 00:00:00 GMT",
            "Strict-Transport-Security: max-age=0",
            "Access-Control-Allow-Origin: *",
        )
    ),
    "expect-and-host": keeping(
        answer("Expect: 100-continue", "Host: 169.254.169.254", "TE: chunked")
    ),
}


def _echoes_audit_id(request: Received) -> bytes:
    """Answer with the request's own audit id in places where it does not belong."""
    audit_id = (request.values("audit-id") or ["none"])[0]
    return answer(
        f"X-Before: {audit_id}", f"Audit-Id: {audit_id}", f"X-After: Audit-Id: {audit_id}"
    )


HEADS["audit-id-echoed"] = Case(
    Script((), make=_echoes_audit_id), Request(headers=(("Audit-ID", "chosen-by-the-caller"),))
)

STATUSES = {
    f"status-{name}": closing(answer(status=status))
    for name, status in {
        "000": "000 Zero",
        "042": "042 Early",
        "099": "099 Early",
        "299": "299 Odd",
        "305": "305 Use Proxy",
        "402": "402 Payment Required",
        "426": "426 Upgrade Required",
        "444": "444 Odd",
        "503": "503 Service Unavailable",
        "511": "511 Network Authentication Required",
        "599": "599 Odd",
        "600": "600 Odd",
        "999": "999 Odd",
        "four-digits": "2000 OK",
        "two-digits": "20 OK",
        "letters": "abc OK",
        "negative": "-200 OK",
        "without-reason": "200",
        "with-a-long-reason": "200 " + "x" * 60_000,
        "with-a-reason-that-is-markup": "404 <script>alert(1)</script>",
        "with-a-reason-of-control-characters": "404 \x1b[31m\x07",
    }.items()
}
STATUSES |= {
    "version-2.0": closing(answer(version="HTTP/2.0")),
    "version-1.2": closing(answer(version="HTTP/1.2")),
    "version-of-another-protocol": closing(answer(version="ICY/1.0")),
    "version-in-small-letters": closing(answer(version="http/1.1")),
}

_PLACES = {
    "the-api-server": "https://127.0.0.1/api/v1/secrets",
    "the-metadata-service": "http://169.254.169.254/latest/meta-data/",
    "a-file": "file:///etc/shadow",
    "a-relative-path": "../../../../../api/v1/secrets",
    "an-absolute-path": "/api/v1/namespaces/kube-system/secrets",
    "another-host": "//elsewhere.example/a",
    "a-script": "javascript:alert(1)",
    "an-escaped-line-end": "/a%0d%0aSet-Cookie:%20a=b",
    "nothing": "",
}
REDIRECTS = {
    f"{code}-to-{place}": Case(
        Script((answer(f"Location: {url}", status=f"{code} Moved"),)),
        routes=ALL if code == 302 else PROXIED,
    )
    for code in (301, 302, 303, 307, 308)
    for place, url in _PLACES.items()
    if code == 302 or place == "the-api-server"
}
REDIRECTS |= {
    "302-without-a-place": keeping(answer(status="302 Found")),
    "302-with-two-places": keeping(answer("Location: /a", "Location: /b", status="302 Found")),
    "302-of-a-post": Case(
        Script((answer("Location: /api/v1/secrets", status="307 Moved"),)),
        Request("POST", body=b"secret of the caller"),
    ),
    "300-with-a-link": keeping(
        answer("Link: </api/v1/secrets>; rel=next", status="300 Multiple Choices")
    ),
    "200-with-a-place-and-links": keeping(
        answer("Location: /api/v1/secrets", "Link: </a>; rel=next", "Refresh: 0; url=/b")
    ),
}
