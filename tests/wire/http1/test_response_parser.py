"""What is read at one glance reads as the parser would have read it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.http1 import response_parser
from proxy.wire.http1.body import NO_BODY
from proxy.wire.http1.message import (
    MAX_HEADERS,
    MalformedResponse,
    ResponseHead,
    parse_response_head,
)
from proxy.wire.http1.response_parser import (
    CachingResponseParser,
    parse_plain_head,
    read_response_head,
)
from tests.support.fault_injection import put

PLAIN = (
    b"HTTP/1.1 200 OK\r\nAudit-Id: 1\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nContent-Length: 12\r\n\r\n"
)


def read_by_both(head: bytes, method: bytes = b"GET") -> list[ResponseHead | None]:
    return [_read_or_none(read, head, method) for read in (read_response_head, parse_response_head)]


def _read_or_none(read: object, head: bytes, method: bytes) -> ResponseHead | None:
    assert callable(read)
    try:
        told: ResponseHead = read(head, request_method=method)
    except MalformedResponse:
        return None
    return told


@pytest.mark.parametrize("line", [b"X: y", b"A:", b"Set-Cookie: a=b"])
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_response_head_has_a_bounded_number_of_lines(line: bytes, method: bytes) -> None:
    def read(lines: int) -> ResponseHead:
        head = b"HTTP/1.1 200 OK\r\n%b\r\n" % ((line + b"\r\n") * lines)
        return read_response_head(head, request_method=method)

    assert read(MAX_HEADERS).lines.count(b"\n") == MAX_HEADERS + 1
    with pytest.raises(MalformedResponse, match="too many header lines"):
        read(MAX_HEADERS + 1)


def test_a_plain_head_needs_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    by_parser = parse_response_head(PLAIN, request_method=b"GET")
    monkeypatch.delattr(response_parser, "parse_response_head")

    at_one_glance = read_response_head(PLAIN, request_method=b"GET")

    assert at_one_glance == by_parser


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"200 OK", b"204 No Content"),
        (b"200 OK", b"304 Not Modified"),
        (b"200 OK", b"101 Switching Protocols"),
        (b"200 OK", b"100 Continue"),
        (b"200 OK", b"200 "),
        (b"200 OK", b"200"),
        (b"200 OK", b"2000 OK"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"HTTP/1.1", b"HTTP/2.0"),
        (b"Content-Length: 12", b"Content-Length: 12\r\nContent-Length: 13"),
        (b"Content-Length: 12", b"Content-Length: 12\r\ncontent-length: 12"),
        (b"Content-Length: 12", b"Content-Length: +12"),
        (b"Content-Length: 12", b"Content-Length: 012"),
        (b"Content-Length: 12", b"Content-Length: 1_2"),
        (b"Content-Length: 12", b"Content-Length: 99999999999999999999"),
        (b"Content-Length: 12", b"Content-Length: 12\r\nTransfer-Encoding: chunked"),
        (b"Content-Length: 12", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 12", b"Connection: close\r\nContent-Length: 12"),
        (b"Content-Length: 12", b"X-Other: 12"),
        (b"Content-Length: 12", b"Content-Length : 12"),
        (b"Content-Length: 12", b"Content-Length:12"),
        (b"Content-Length: 12", b"Content-Length: 12 "),
        (b"Audit-Id: 1", b"Audit-Id: 1\r\n folded"),
        (b"Audit-Id: 1", b"Audit-Id: 1\nX: 2"),
        (b"Audit-Id: 1", b"Audit-Id:"),
        (b"Audit-Id: 1", b"Audit-Id: \xc3\xa9"),
        (b"Audit-Id: 1", b"Audit-Id: \x00"),
        (b"Audit-Id: 1", b"Upgrade: websocket"),
    ],
)
def test_an_odd_head_reads_as_the_parser_reads_it(method: bytes, old: bytes, new: bytes) -> None:
    assert old in PLAIN

    glance, parser = read_by_both(PLAIN.replace(old, new), method)

    assert glance == parser


pieces = st.sampled_from(
    [
        b"HTTP/1.1 ", b"200", b"404", b"500", b" OK", b"\r\n", b"\n", b"\r", b" ", b"\t", b": ",
        b":", b"Content-Length", b"content-length: 5", b"Transfer-Encoding: chunked",
        b"Connection: close", b"X-A: b", b"Date", b"7", b"\x00", b"\xff", b",",
    ]
)  # fmt: skip


@settings(max_examples=1500)
@given(st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n"]), st.lists(pieces, max_size=12).map(b"".join))
def test_whatever_comes_reads_as_the_parser_reads_it(first: bytes, rest: bytes) -> None:
    head = first + rest + b"\r\n\r\n"

    glance, parser = read_by_both(head[: head.index(b"\r\n\r\n") + 4])

    assert glance == parser


def test_a_glance_that_looks_away_is_caught() -> None:
    """The comparison above can fail: a glance that takes the last of two lengths is seen."""
    careless = PLAIN.replace(b"Content-Length: 12", b"Content-Length: 12\r\nContent-Length: 13")
    put(response_parser, "_MAX_SPECIAL_LINES", 9)
    try:
        glance, parser = read_by_both(careless)
    finally:
        put(response_parser, "_MAX_SPECIAL_LINES", 2)

    assert glance != parser


lines = st.sampled_from(
    [
        b"Audit-Id: 7", b"audit-id: 7", b"X-A: Audit-Id: 7", b"Content-Length: 5", b"X-B: a, b",
        b"content-length: 5", b"Keep-Alive: 3", b"TE: trailers", b"Te-A: b", b"Upgrade: h2c",
        b"Proxy-Connection: a", b"Trailer: b", b"Connection: X-B", b"Warning: 299 - \"w\"",
        b"Set-Cookie: a", b"Set-Cookie: b", b"X-Audit-Id: 1", b"Content-Length-A: 5",
        b"Transfer-Encoding: chunked", b"transfer-encoding: chunked", b"Transfer-Encoding: gzip",
    ]
)  # fmt: skip


@settings(max_examples=1500)
@given(st.lists(lines, max_size=6))
def test_a_plain_head_is_returned_line_by_line_as_any_other(some: list[bytes]) -> None:
    head = b"".join(line + b"\r\n" for line in (b"HTTP/1.1 200 OK", *some, b""))
    plain = parse_plain_head(head)
    if plain is None:
        return

    assert plain == parse_response_head(head, request_method=b"GET")
    names = {line.partition(b":")[0].lower() for line in plain.lines.split(b"\r\n")}
    assert names.isdisjoint({b"connection", b"transfer-encoding", b"audit-id", b"te", b"trailer"})


IN_CHUNKS = PLAIN.replace(b"Content-Length: 12", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize("head", [PLAIN, IN_CHUNKS])
def test_the_usual_answer_is_a_plain_one(head: bytes) -> None:
    plain = parse_plain_head(head)

    assert plain is not None
    assert b"Audit-Id" not in plain.lines
    assert b"Transfer-Encoding" not in plain.lines


def with_id(audit_id: bytes, head: bytes = PLAIN) -> bytes:
    return head.replace(b"Audit-Id: 1", b"Audit-Id: " + audit_id)


@pytest.mark.parametrize("head", [PLAIN, IN_CHUNKS])
def test_a_head_that_differs_in_its_id_alone_is_known_again(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = CachingResponseParser()
    first = parser.parse(with_id(b"id-1", head), method=b"GET", audit_id=b"id-1")

    monkeypatch.setattr(response_parser, "parse_plain_head", lambda _: pytest.fail("read again"))
    second = parser.parse(with_id(b"id-12", head), method=b"GET", audit_id=b"id-12")

    assert second is first


def test_a_cached_head_is_not_the_answer_to_a_head_request() -> None:
    """Its length is that of a body that does not come."""
    parser = CachingResponseParser()
    parser.parse(PLAIN, method=b"GET", audit_id=b"an-id")

    answer = parser.parse(PLAIN, method=b"HEAD", audit_id=b"an-id")

    assert answer == parse_response_head(PLAIN, request_method=b"HEAD")
    assert answer.framing == NO_BODY


ids = st.sampled_from(
    [b"1", b"id", b"a", b"Audit-Id", b"12", b"t", b": ", b"Content-Length: 12", b"00", b"01", b"20"]
)
changed = st.sampled_from(
    [
        (b"", b""),
        (b"Audit-Id: 1\r\n", b""),
        (b"200", b"201"),
        (b"200", b"404"),
        (b"Audit-Id: 1", b"Audit-Id: "),
        (b"Audit-Id: 1", b"audit-id: 1"),
        (b"private", b"private1"),
        (b"12", b"1"),
        (b"12", b"112"),
        (b"12", b"121"),
        (b"Content-Length: 12", b"Content-Length: 12\r\nX-Id: 1"),
        (b"Content-Length: 12", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 12", b"Content-Length: 12\r\nTransfer-Encoding: chunked"),
        (b"Audit-Id: 1", b"X-Id: 1"),
        (b"Audit-Id: 1", b"Audit-Id: 1\r\nAudit-Id: 1"),
        (b"\r\n\r\n", b"\r\n"),
        (b"\r\n\r\n", b""),
    ]
)


@settings(max_examples=2000)
@given(st.lists(st.tuples(changed, changed, ids, ids), max_size=6))
def test_whatever_was_read_before_a_head_is_read_as_if_it_were_the_first(
    answers: list[tuple[tuple[bytes, bytes], tuple[bytes, bytes], bytes, bytes]],
) -> None:
    parser = CachingResponseParser()
    for one, other, echoed, asked in answers:
        head = with_id(echoed, PLAIN.replace(*one).replace(*other))
        head = head[: head.index(b"\r\n\r\n") + 4] if b"\r\n\r\n" in head else head + b"\r\n"

        expected = _read_or_none(parse_response_head, head, b"GET")
        try:
            answer = parser.parse(head, method=b"GET", audit_id=asked)
        except MalformedResponse:
            assert expected is None
        else:
            assert answer == expected


def test_an_id_that_stands_in_the_status_makes_no_two_statuses_one() -> None:
    """Where the API server does not repeat the id of a request, it may still be found elsewhere."""
    parser = CachingResponseParser()
    untold = PLAIN.replace(b"Audit-Id: 1\r\n", b"")

    statuses = [
        parser.parse(untold.replace(b"200", status), method=b"GET", audit_id=status[1:]).status
        for status in (b"200", b"201")
    ]

    assert statuses == [200, 201]


def test_what_is_remembered_is_bounded() -> None:
    parser = CachingResponseParser()

    for number in range(1000):
        head = PLAIN.replace(b"private", b"private%d" % number)
        parser.parse(head, method=b"GET", audit_id=b"an-id")

    assert 0 < len(parser._heads) <= 64
