import pytest

from proxy.core.http.status import status_response
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.requestinfo.timeout import InvalidTimeout, check_timeout


@pytest.mark.parametrize(
    "target",
    [
        b"/api/v1/pods",
        b"/api/v1/pods?timeout=5s",
        b"/api/v1/pods?timeout=",
        b"/api/v1/pods?limit=5",
        b"/api/v1/pods?timeout=5;&x=1",
        b"/api/v1/pods?watch=1&timeout=x",
        b"/api/v1/namespaces/n/pods/p/log?timeout=x",
    ],
)
def test_what_the_api_server_would_not_read_or_can_read_passes(target: bytes) -> None:
    check_timeout(parse_request_info(b"GET", target), target)


def test_a_bad_timeout_is_refused_in_the_api_servers_words() -> None:
    target = b"/api/v1/pods?timeout=5"

    with pytest.raises(InvalidTimeout) as refused:
        check_timeout(parse_request_info(b"GET", target), target)

    headers, body = status_response(refused.value, [], target, audit_id=b"id")
    assert body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"invalid timeout specified in the request URL - '
        b'time: missing unit in duration \\"5\\"","reason":"BadRequest","code":400}\n'
    )
    assert b"X-Content-Type-Options" not in dict(headers)
