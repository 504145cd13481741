"""Which heads are refused before anybody acts on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import BadRequest, StatusError
from proxy.wire.http1.message import (
    MAX_HEADERS,
    HeadTooLarge,
    RequestHead,
    check_header_lines,
    parse_request_head,
)


def request(*lines: bytes, first: bytes = b"GET /api/v1/pods HTTP/1.1") -> RequestHead:
    """Read a request with one Host and these lines."""
    return parse_request_head(b"\r\n".join([first, b"Host: proxy:8443", *lines, b"", b""]))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"Content-Length: 5", b"Transfer-Encoding: chunked"], id="length and coding"),
        pytest.param([b"Transfer-Encoding: chunked", b"Content-Length: 5"], id="coding and length"),
        pytest.param([b"Content-Length: 5", b"Content-Length: 5"], id="two equal lengths"),
        pytest.param([b"Content-Length: 5", b"Content-Length: 6"], id="two lengths"),
        pytest.param([b"Content-Length: 5, 5"], id="a list of lengths"),
        pytest.param([b"Content-Length: +5"], id="plus sign"),
        pytest.param([b"Content-Length: -5"], id="minus sign"),
        pytest.param([b"Content-Length: 0x5"], id="hexadecimal length"),
        pytest.param([b"Content-Length: 5_0"], id="underscore in a length"),
        pytest.param([b"Content-Length:"], id="no length"),
        pytest.param([b"Content-Length: 18446744073709551616"], id="a length past 64 bits"),
        pytest.param([b"Transfer-Encoding: xchunked"], id="xchunked"),
        pytest.param([b"Transfer-Encoding: identity"], id="identity"),
        pytest.param([b"Transfer-Encoding: identity, chunked"], id="identity and chunked"),
        pytest.param([b"Transfer-Encoding: gzip, chunked"], id="gzip and chunked"),
        pytest.param([b"Transfer-Encoding: chunked, chunked"], id="chunked twice"),
        pytest.param(
            [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], id="two codings"
        ),
        pytest.param(
            [b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"], id="codings in two lines"
        ),
        pytest.param([b"Transfer-Encoding:\x0bchunked"], id="vertical tab before the coding"),
        pytest.param([b"Transfer-Encoding: chunked\x00"], id="NUL after the coding"),
        pytest.param([b"Transfer-Encoding:"], id="no coding"),
        pytest.param([b"X: a\r\n b"], id="folded line"),
        pytest.param([b"X: a\nY: b"], id="bare line feed"),
        pytest.param([b"X: a\rY: b"], id="bare carriage return"),
        pytest.param([b"X: a\r"], id="carriage return before the end of line"),
        pytest.param([b"X : a"], id="blank before the colon"),
        pytest.param([b" X: a"], id="blank before the name"),
        pytest.param([b"X Y: a"], id="blank in a name"),
        pytest.param([b": a"], id="no name"),
        pytest.param([b"X"], id="no colon"),
        pytest.param([b"X\xe9: a"], id="high byte in a name"),
        pytest.param([b"X\x00: a"], id="NUL in a name"),
        pytest.param([b"X(: a"], id="delimiter in a name"),
        pytest.param([b"X: a\x00b"], id="NUL in a value"),
        pytest.param([b"X: a\x01b"], id="control character in a value"),
        pytest.param([b"X: a\x7fb"], id="DEL in a value"),
        pytest.param([b"Connection: Upgrade", b"Upgrade: h2c"], id="an upgrade to HTTP/2"),
        pytest.param([b"HTTP2-Settings: AAMAAABkAAQAAP__"], id="settings of HTTP/2"),
        pytest.param(
            [b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 5"],
            id="an upgrade with a body",
        ),
        pytest.param([b"Host: other"], id="two hosts"),
        pytest.param([b"host: proxy:8443"], id="two equal hosts"),
    ],
)
def test_a_doubtful_head_is_a_400(lines: list[bytes]) -> None:
    with pytest.raises(BadRequest) as refused:
        request(*lines)

    assert refused.value.code == 400


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b"get / HTTP/1.1", id="lower-case method"),
        pytest.param(b"FOO / HTTP/1.1", id="unknown method"),
        pytest.param(b"TRACE / HTTP/1.1", id="TRACE"),
        pytest.param(b"CONNECT proxy:8443 HTTP/1.1", id="CONNECT"),
        pytest.param(b"PRI * HTTP/2.0", id="HTTP/2 preface"),
        pytest.param(b"GET / HTTP/1.2", id="HTTP/1.2"),
        pytest.param(b"GET / HTTP/2.0", id="HTTP/2.0"),
        pytest.param(b"GET / HTTP/0.9", id="HTTP/0.9"),
        pytest.param(b"GET /", id="no version"),
        pytest.param(b"GET / http/1.1", id="lower-case version"),
        pytest.param(b"GET / RTSP/1.0", id="another protocol"),
        pytest.param(b"GET / HTTP/1.10", id="two digits"),
        pytest.param(b"GET  / HTTP/1.1", id="two blanks before the target"),
        pytest.param(b"GET /  HTTP/1.1", id="two blanks after the target"),
        pytest.param(b"GET / HTTP/1.1 ", id="blank at the end"),
        pytest.param(b"GET\t/ HTTP/1.1", id="tab"),
        pytest.param(b"GET /a b HTTP/1.1", id="blank in the target"),
        pytest.param(b"GET /\xe9 HTTP/1.1", id="high byte in the target"),
        pytest.param(b"GET /\x01 HTTP/1.1", id="control character in the target"),
        pytest.param(b"GET /\x7f HTTP/1.1", id="DEL in the target"),
        pytest.param(b"\r\nGET / HTTP/1.1", id="blank line first"),
        pytest.param(b"\nGET / HTTP/1.1", id="line feed first"),
        pytest.param(b" GET / HTTP/1.1", id="blank first"),
        pytest.param(b"\x16\x03\x01\x02\x00GET / HTTP/1.1", id="TLS inside TLS"),
    ],
)
def test_a_doubtful_request_line_is_a_400(first: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        request(first=first)

    assert refused.value.code == 400


@pytest.mark.parametrize("host", [b"", b"a b", b"a/b", b"a@b", b"a,b", b"a\\b", b'a"b', b"\xe9"])
def test_a_malformed_host_is_a_400(host: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request_head(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)


@pytest.mark.parametrize("host", [b"a", b"a.b-c:8443", b"127.0.0.1", b"[::1]:8443", b"a_b"])
def test_hosts_of_every_kind_are_read(host: bytes) -> None:
    head = parse_request_head(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)

    assert head.headers == ((b"Host", host),)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_request_without_a_host_is_a_400(version: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request_head(b"GET / HTTP/%b\r\n\r\n" % version)


def test_a_transfer_coding_in_http_1_0_is_a_400() -> None:
    with pytest.raises(BadRequest):
        request(b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0")


def test_a_400_repeats_nothing_of_the_request() -> None:
    with pytest.raises(BadRequest) as refused:
        request(b"Authorization: Bearer canary\x00")

    assert "canary" not in refused.value.message


def test_too_many_headers_are_a_431() -> None:
    assert len(request(*[b"X: y"] * (MAX_HEADERS - 1)).headers) == MAX_HEADERS

    with pytest.raises(HeadTooLarge) as refused:
        request(*[b"X: y"] * MAX_HEADERS)

    assert refused.value.code == 431


@given(st.binary(max_size=80))
def test_whatever_comes_is_read_or_refused(noise: bytes) -> None:
    for head in (noise + b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n" + noise + b"\r\n\r\n"):
        try:
            parsed = parse_request_head(head)
        except StatusError:
            continue
        assert head.startswith(parsed.method + b" " + parsed.target + b" HTTP/1.")
        assert b"\n" not in b"".join(name + value for name, value in parsed.headers)


@given(st.lists(st.integers(0, 12), max_size=12), st.sampled_from([b"", b"\n"]))
def test_a_header_line_above_the_limit_is_refused_whole_or_not(
    lengths: list[int], end: bytes
) -> None:
    # A request line may be longer: its length has a limit of its own.
    head = b"GET /long HTTP/1.1\n" + b"\n".join(b"a" * length for length in lengths)
    head += end
    header_lines = head.partition(b"\n")[2].splitlines(keepends=True)

    is_refused = False
    try:
        check_header_lines(head, most_bytes=8)
    except HeadTooLarge:
        is_refused = True

    assert is_refused == any(len(line) > 8 for line in header_lines)
