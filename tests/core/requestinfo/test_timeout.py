import time

import pytest

from proxy.core.gocompat.duration import parse_duration_error
from proxy.core.http.status import status_response
from proxy.core.requestinfo.request_info import parse_request_info
from proxy.core.requestinfo.timeout import InvalidTimeout, check_timeout

# What Go 1.26's time.ParseDuration says.
GO_SAYS = {
    b"5s": None,
    b"0": None,
    b"-0": None,
    b"+1.5h": None,
    b".5s": None,
    b"5.s": None,
    b"1h2m3.4s5ms6us7ns": None,
    "1\u00b5s2\u03bcs".encode(): None,
    b"0.99999999999999999999999s": None,
    b"-9223372036854775808ns": None,
    b"9223372036854775807ns": None,
    b"9223372036854775808ns": 'time: invalid duration "9223372036854775808ns"',
    b"9223372036854775809ns": 'time: invalid duration "9223372036854775809ns"',
    b"2562047h47m16.854775807s1ns": 'time: invalid duration "2562047h47m16.854775807s1ns"',
    b"9223372036854775807ns1s1": 'time: invalid duration "9223372036854775807ns1s1"',
    b"9999999h": 'time: invalid duration "9999999h"',
    b"5": 'time: missing unit in duration "5"',
    b"1s5": 'time: missing unit in duration "1s5"',
    b"5d": 'time: unknown unit "d" in duration "5d"',
    b"5 s": 'time: unknown unit " s" in duration "5 s"',
    b"-": 'time: invalid duration "-"',
    b".": 'time: invalid duration "."',
    b".s": 'time: invalid duration ".s"',
    b"abc": 'time: invalid duration "abc"',
    b'5"\\': 'time: unknown unit "\\"\\\\" in duration "5\\"\\\\"',
    b"5\xff\x01": 'time: unknown unit "\\xff\\x01" in duration "5\\xff\\x01"',
    "5\u00e9".encode(): 'time: unknown unit "\\xc3\\xa9" in duration "5\\xc3\\xa9"',
}


@pytest.mark.parametrize("text", GO_SAYS, ids=repr)
def test_a_duration_is_read_as_go_reads_it(text: bytes) -> None:
    assert parse_duration_error(text) == GO_SAYS[text]


def test_endless_digits_are_no_duration_and_cost_nothing() -> None:
    fault = parse_duration_error(b"9" * 100_000 + b"s")

    assert fault is not None
    assert fault.startswith("time: invalid duration")


@pytest.mark.parametrize("text", [b"0h", b"0hx", b"\xff"], ids=repr)
def test_endless_parts_cost_no_more_than_their_bytes(text: bytes) -> None:
    """It is read before anybody is authenticated: copying the text for each part was a stall."""
    short, long = (cost_of(text[:2] * (size // 2) + text[2:]) for size in (50_000, 400_000))

    # Eight times the bytes: about 8 if the cost follows them, 64 if it follows their square.
    assert long < 24 * short


def cost_of(text: bytes) -> float:
    costs = []
    for _ in range(3):
        started = time.thread_time()
        parse_duration_error(text)
        costs.append(time.thread_time() - started)
    return min(costs)


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
