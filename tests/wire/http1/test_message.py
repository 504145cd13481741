"""What heads say, as the bytes that came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.http.headers import HeaderList
from proxy.wire.http1.body import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    BodyFraming,
    BodyKind,
)
from proxy.wire.http1.message import (
    ExpectationFailed,
    MalformedResponse,
    RequestHead,
    ResponseHead,
    encode_head,
    find_head_end,
    parse_request_head,
    parse_response_head,
)

FIVE_BYTES = BodyFraming(BodyKind.LENGTH, 5)


def request(*lines: bytes, first: bytes = b"GET /api/v1/pods HTTP/1.1") -> RequestHead:
    """Read a request with one Host and these lines."""
    return parse_request_head(b"\r\n".join([first, b"Host: proxy:8443", *lines, b"", b""]))


def response(
    *lines: bytes, first: bytes = b"HTTP/1.1 200 OK", method: bytes = b"GET"
) -> ResponseHead:
    return parse_response_head(b"\r\n".join([first, *lines, b"", b""]), request_method=method)


# --- requests ----------------------------------------------------------------------------------


def test_a_request_is_kept_as_the_bytes_that_came() -> None:
    head = request(
        b"X-Two:  two words \t",
        b"x-two: \xc3\xa9\xff",
        b"X-Empty:",
        first=b"PATCH /api/v1/a%2Fb/..//c;d?watch&x=%zz HTTP/1.1",
    )

    assert head == RequestHead(
        method=b"PATCH",
        target=b"/api/v1/a%2Fb/..//c;d?watch&x=%zz",
        minor_version=1,
        headers=HeaderList(
            (
                (b"Host", b"proxy:8443"),
                (b"X-Two", b"two words"),
                (b"x-two", b"\xc3\xa9\xff"),
                (b"X-Empty", b""),
            )
        ),
        framing=NO_BODY,
        keep_alive=True,
    )


@pytest.mark.parametrize(
    "method", [b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"]
)
def test_the_methods_of_kubernetes_are_read(method: bytes) -> None:
    assert request(first=method + b" / HTTP/1.1").method == method


@pytest.mark.parametrize(
    ("lines", "framing"),
    [
        ([], NO_BODY),
        ([b"Content-Length: 5"], FIVE_BYTES),
        ([b"content-length:5"], FIVE_BYTES),
        ([b"Content-Length: 0"], BodyFraming(BodyKind.LENGTH, 0)),
        # More digits than Python itself reads.
        ([b"Content-Length: %b5" % (b"0" * 5000)], FIVE_BYTES),
        ([b"Content-Length: %b" % (b"0" * 5000)], BodyFraming(BodyKind.LENGTH, 0)),
        ([b"Transfer-Encoding: chunked"], CHUNKED),
        ([b"transfer-encoding: Chunked"], CHUNKED),
    ],
)
def test_a_body_is_delimited_in_one_way(lines: list[bytes], framing: BodyFraming) -> None:
    assert request(*lines).framing == framing


@pytest.mark.parametrize(
    ("lines", "keep_alive"),
    [
        ([], True),
        ([b"Connection: keep-alive"], True),
        ([b"Connection: close"], False),
        ([b"Connection: Close"], False),
        ([b"Connection: keep-alive, close"], False),
        ([b"Connection: close", b"Connection: keep-alive"], False),
        ([b"Connection: keep-alive", b"Connection: foo,  close"], False),
        ([b"Connection: closed"], True),
    ],
)
def test_a_close_anywhere_closes(lines: list[bytes], keep_alive: object) -> None:
    assert request(*lines).keep_alive is keep_alive


def test_http_1_0_is_read_and_never_kept_alive() -> None:
    head = request(b"Connection: keep-alive", first=b"GET / HTTP/1.0")

    assert (head.minor_version, head.keep_alive) == (0, False)


def test_an_upgrade_is_noticed_and_its_head_is_read() -> None:
    head = request(b"Connection: Upgrade", b"Upgrade: SPDY/3.1", b"Content-Length: 0")

    assert head.upgrade == b"SPDY/3.1"
    assert head.headers[1:] == (
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"SPDY/3.1"),
        (b"Content-Length", b"0"),
    )


@pytest.mark.parametrize(
    ("lines", "first", "expects"),
    [
        ([b"Expect: 100-continue", b"Content-Length: 5"], b"PUT / HTTP/1.1", True),
        ([b"expect: 100-Continue", b"Transfer-Encoding: chunked"], b"PUT / HTTP/1.1", True),
        ([b"Content-Length: 5"], b"PUT / HTTP/1.1", False),
        ([b"Expect: 100-continue"], b"GET / HTTP/1.1", False),
        ([b"Expect: 100-continue", b"Content-Length: 0"], b"PUT / HTTP/1.1", False),
        ([b"Expect: 100-continue", b"Content-Length: 5"], b"PUT / HTTP/1.0", False),
    ],
)
def test_only_who_waits_with_a_body_is_told_to_continue(
    lines: list[bytes], first: bytes, expects: object
) -> None:
    assert request(*lines, first=first).expects_continue is expects


@pytest.mark.parametrize("value", [b"200-ok", b"100-continue, more", b""])
def test_an_unknown_expectation_is_a_417(value: bytes) -> None:
    with pytest.raises(ExpectationFailed) as refused:
        request(b"Expect: " + value, b"Content-Length: 5")

    assert refused.value.code == 417


# --- the end of a head -------------------------------------------------------------------------


@given(st.integers(min_value=0, max_value=30))
def test_the_end_of_a_head_is_found_however_far_it_was_searched(searched: int) -> None:
    buffer = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next"
    searched = min(searched, buffer.index(b"\r\n\r\n") + 3)

    assert find_head_end(buffer, searched) == buffer.index(b"GET /next")


@pytest.mark.parametrize("buffer", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r", b"a\n\nb\n\r\n"])
def test_a_head_has_no_other_end(buffer: bytes) -> None:
    assert find_head_end(buffer, 0) == -1


# --- responses ---------------------------------------------------------------------------------


def test_a_response_is_kept_as_it_came() -> None:
    head = response(
        b'Warning: 299 - "one"',
        b'Warning: 299 - "two"',
        b"Content-Length: 5",
        first=b"HTTP/1.1 404 Odd Reason",
    )

    assert head == ResponseHead(
        status=404,
        lines=b"HTTP/1.1 404 Odd Reason\r\n"
        b'Warning: 299 - "one"\r\nWarning: 299 - "two"\r\nContent-Length: 5\r\n',
        framing=FIVE_BYTES,
        keep_alive=True,
    )


@pytest.mark.parametrize(
    ("lines", "status", "method", "framing"),
    [
        ([b"Content-Length: 5"], b"200", b"GET", FIVE_BYTES),
        ([b"Content-Length: %b5" % (b"0" * 5000)], b"200", b"GET", FIVE_BYTES),
        ([b"Transfer-Encoding: chunked"], b"200", b"GET", CHUNKED),
        ([], b"200", b"GET", UNTIL_CLOSE),
        ([], b"500", b"POST", UNTIL_CLOSE),
        ([b"Content-Length: 5"], b"200", b"HEAD", NO_BODY),
        ([b"Transfer-Encoding: chunked"], b"200", b"HEAD", NO_BODY),
        ([], b"200", b"HEAD", NO_BODY),
        ([], b"204", b"GET", NO_BODY),
        ([b"Content-Length: 5"], b"304", b"GET", NO_BODY),
        ([], b"100", b"GET", NO_BODY),
    ],
)
def test_the_method_and_the_status_decide_whether_a_body_follows(
    lines: list[bytes], status: bytes, method: bytes, framing: BodyFraming
) -> None:
    assert response(*lines, first=b"HTTP/1.1 %b X" % status, method=method).framing == framing


@pytest.mark.parametrize(
    ("lines", "first", "method", "keep_alive"),
    [
        ([b"Content-Length: 5"], b"HTTP/1.1 200 OK", b"GET", True),
        ([b"Transfer-Encoding: chunked"], b"HTTP/1.1 200 OK", b"GET", True),
        ([], b"HTTP/1.1 204 No Content", b"GET", True),
        ([], b"HTTP/1.1 200 OK", b"HEAD", True),
        ([], b"HTTP/1.1 200 OK", b"GET", False),
        ([b"Content-Length: 5", b"Connection: close"], b"HTTP/1.1 200 OK", b"GET", False),
        ([b"Content-Length: 5", b"Connection: a, Close"], b"HTTP/1.1 200 OK", b"GET", False),
        ([b"Content-Length: 5"], b"HTTP/1.0 200 OK", b"GET", False),
    ],
)
def test_a_connection_is_kept_only_for_an_answer_with_an_end(
    lines: list[bytes], first: bytes, method: bytes, keep_alive: object
) -> None:
    assert response(*lines, first=first, method=method).keep_alive is keep_alive


@pytest.mark.parametrize(
    ("status", "is_interim"), [(b"100", True), (b"103", True), (b"101", False), (b"200", False)]
)
def test_an_interim_head_has_another_behind_it(status: bytes, is_interim: object) -> None:
    upgrade = (b"Connection: Upgrade", b"Upgrade: SPDY/3.1") if status == b"101" else ()

    assert response(*upgrade, first=b"HTTP/1.1 %b X" % status).is_interim is is_interim


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        pytest.param(
            [b"Content-Length: 5", b"Transfer-Encoding: chunked"], b"", id="length and coding"
        ),
        pytest.param([b"Content-Length: 5", b"Content-Length: 5"], b"", id="two lengths"),
        pytest.param([b"Transfer-Encoding: gzip, chunked"], b"", id="another coding"),
        pytest.param(
            [b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip"], b"", id="two codings"
        ),
        pytest.param([b"Transfer-Encoding: chunked"], b"HTTP/1.0 200 OK", id="coding in 1.0"),
        pytest.param([b"X: a\nY: b"], b"", id="bare line feed"),
        pytest.param([b"X: a\r\n b"], b"", id="folded line"),
        pytest.param([b"X: a\x00b"], b"", id="NUL in a value"),
        pytest.param([], b"\r\nHTTP/1.1 200 OK", id="blank line first"),
        pytest.param([], b"HTTP/2.0 200 OK", id="HTTP/2.0"),
        pytest.param([], b"RTSP/1.0 200 OK", id="another protocol"),
        pytest.param([], b"HTTP/1.1 099 X", id="no such status"),
        pytest.param([], b"HTTP/1.1 1000 X", id="four digits"),
        pytest.param([], b"GET / HTTP/1.1", id="a request"),
    ],
)
def test_an_upstream_that_does_not_speak_http_is_noticed(lines: list[bytes], first: bytes) -> None:
    with pytest.raises(MalformedResponse):
        response(*lines, first=first or b"HTTP/1.1 200 OK")


def test_a_head_is_written_line_by_line() -> None:
    head = encode_head(b"GET / HTTP/1.1", [(b"Host", b"a"), (b"X", b""), (b"X", b"b")])

    assert head == b"GET / HTTP/1.1\r\nHost: a\r\nX: \r\nX: b\r\n\r\n"
