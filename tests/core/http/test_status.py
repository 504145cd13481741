import pytest

from proxy.core.errors import (
    BadGateway,
    BadRequest,
    Forbidden,
    GatewayTimeout,
    InternalError,
    RequestInfoError,
    StatusError,
    TooManyRequests,
    Unauthorized,
    UpstreamUnavailable,
)
from proxy.core.http.status import status_body, status_response


def test_a_status_is_written_as_the_api_server_writes_it() -> None:
    details = {"name": "a", "group": "apps", "kind": "deployments"}
    error = Forbidden('User "<a>" & b\u2028\x01\x7f\n', details=details)

    assert status_body(error) == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"User \\"\\u003ca\\u003e\\" \\u0026 b\\u2028\\u0001\x7f\\n",'
        b'"reason":"Forbidden",'
        b'"details":{"name":"a","group":"apps","kind":"deployments"},"code":403}\n'
    )


def test_an_indented_status_has_no_final_newline() -> None:
    assert status_body(Forbidden("no", details={}), pretty=True) == (
        b'{\n  "kind": "Status",\n  "apiVersion": "v1",\n  "metadata": {},\n'
        b'  "status": "Failure",\n  "message": "no",\n  "reason": "Forbidden",\n'
        b'  "details": {},\n  "code": 403\n}'
    )


def test_text_that_is_not_unicode_is_replaced_and_never_breaks_the_answer() -> None:
    assert b'"message":"a\\ufffdb\xc3\xa9"' in status_body(BadRequest("a\ud800bé"))


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (BadRequest("x"), 400, "BadRequest"),
        (Unauthorized(), 401, "Unauthorized"),
        (Forbidden("x"), 403, "Forbidden"),
        (TooManyRequests("x"), 429, "TooManyRequests"),
        (InternalError("x"), 500, "InternalError"),
        (BadGateway("x"), 502, "InternalError"),
        (UpstreamUnavailable("x"), 503, "ServiceUnavailable"),
        (GatewayTimeout("x"), 504, "Timeout"),
    ],
)
def test_each_refusal_has_its_own_code_and_reason(
    error: StatusError, code: int, reason: str
) -> None:
    body = status_body(error)

    assert f'"reason":"{reason}","code":{code}}}\n'.encode() in body
    assert b'"details"' not in body


def test_a_refusal_that_may_be_retried_says_when() -> None:
    error = TooManyRequests("later", retry_after_seconds=3)

    headers, body = status_response(error, [], b"/", audit_id=b"id")

    assert (b"Retry-After", b"3") in headers
    assert b'"details":{"retryAfterSeconds":3},"code":429' in body


def test_a_refusal_carries_the_headers_of_the_api_server() -> None:
    headers, body = status_response(Forbidden("no"), [], b"/", audit_id=b"id")

    assert headers == [
        (b"Audit-Id", b"id"),
        (b"Cache-Control", b"no-cache, private"),
        (b"Content-Type", b"application/json"),
        (b"X-Content-Type-Options", b"nosniff"),
    ]
    assert body.endswith(b'"code":403}\n')


def test_an_unauthenticated_caller_is_told_one_word_and_no_sniffing_rule() -> None:
    headers, body = status_response(Unauthorized(), [], b"/", audit_id=b"id")

    assert headers == [
        (b"Audit-Id", b"id"),
        (b"Cache-Control", b"no-cache, private"),
        (b"Content-Type", b"application/json"),
    ]
    assert body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"Unauthorized","reason":"Unauthorized","code":401}\n'
    )


def test_the_request_chooses_how_a_refusal_looks() -> None:
    by_agent = status_response(Forbidden("no"), [(b"user-agent", b"curl/8")], b"/", audit_id=b"id")
    by_query = status_response(Forbidden("no"), [], b"/a?pretty=1", audit_id=b"id")

    assert by_agent == by_query
    assert by_agent[1].startswith(b'{\n  "kind"')


def test_what_the_api_server_says_in_text_is_text() -> None:
    error = RequestInfoError('Error: "/a?<b>&\udcff"')

    headers, body = status_response(error, [(b"User-Agent", b"curl")], b"/", audit_id=b"id")

    assert headers == [
        (b"Audit-Id", b"id"),
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"X-Content-Type-Options", b"nosniff"),
    ]
    assert body == b'Error: "/a?&lt;b&gt;&amp;\xff"\n'


def test_warning_is_a_quoted_string_of_printable_ascii_with_the_audit_id() -> None:
    error = Forbidden("denied")
    error.warning = 'User "b\\\n\u00e9" cannot'

    headers, _ = status_response(error, [], b"/api", audit_id=b"id")
    without, _ = status_response(Forbidden("denied"), [], b"/api", audit_id=b"id")

    warnings = [value for name, value in headers if name == b"Warning"]
    assert warnings == [b'299 - "understudy: User \\"b\\\\??\\" cannot; Audit-Id id"']
    assert b"Warning" not in dict(without)


def test_long_warning_is_truncated() -> None:
    error = Forbidden("denied")
    error.warning = "x" * 10_000

    headers, _ = status_response(error, [], b"/api", audit_id=b"id")

    assert len(dict(headers)[b"Warning"]) < 600
