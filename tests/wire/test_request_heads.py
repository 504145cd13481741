"""A head read after another one of its connection is read as if it had been the first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.errors import Refusal
from proxy.wire.head import MAX_HEAD_BYTES, RequestHead, parse_request_head
from proxy.wire.request_heads import RequestHeads

LINES = b"Host: a\r\nAuthorization: Bearer t\r\nImpersonate-User: alice\r\n\r\n"
GET = b"GET /api/v1/pods HTTP/1.1\r\n" + LINES


def outcome(head: bytes, heads: RequestHeads | None = None) -> RequestHead | str:
    try:
        # Notes say nothing of what was read.
        return parse_request_head(head) if heads is None else heads.read(head)._replace(notes=None)
    except Refusal as refusal:
        return refusal.message


def test_only_the_target_is_new_where_the_lines_are_the_same() -> None:
    heads = RequestHeads()
    first = heads.read(GET)

    second = heads.read(b"GET /api/v1/nodes HTTP/1.1\r\n" + LINES)

    assert second.target == b"/api/v1/nodes"
    assert second.headers is first.headers


def test_the_same_target_under_other_lines_carries_the_other_lines() -> None:
    heads = RequestHeads()
    heads.read(GET)

    second = heads.read(GET.replace(b"alice", b"bobby"))

    assert (b"Impersonate-User", b"bobby") in second.headers


def test_what_was_forgotten_is_read_anew() -> None:
    heads = RequestHeads()
    first = heads.read(GET)

    heads.forget()

    assert heads.known(GET) is None
    second = heads.read(GET)
    assert second.headers is not first.headers
    assert second == first


FIRST_LINES = [
    b"GET / HTTP/1.1",
    b"GET / HTTP/1.0",
    b"POST / HTTP/1.1",
    b"get / HTTP/1.1",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.1 ",
    b"GET / HTTP/2.0",
    b"GET /%2f?a=b&c HTTP/1.1",
    b"GET /a#b HTTP/1.1",
    b"GET /a b HTTP/1.1",
    b"GET /\x7f HTTP/1.1",
    b"GET /\xff HTTP/1.1",
    b"GET /\n HTTP/1.1",
    b"GET http://a/ HTTP/1.1",
    b"GET * HTTP/1.1",
    b"CONNECT / HTTP/1.1",
    b"",
]
MANY_LINES = [
    b"Host: a\r\n\r\n",
    b"Host: a\r\nConnection: close\r\n\r\n",
    b"Host: a\r\nContent-Length: 3\r\n\r\n",
    b"Host: a\r\nContent-Length: 0\r\n\r\n",
    b"Host: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"Host: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    b"Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"Host: a\r\nX: " + b"x" * 5000 + b"\r\n\r\n",
    b"\r\n",
]


@pytest.mark.parametrize("lines", MANY_LINES, ids=range(len(MANY_LINES)))
@pytest.mark.parametrize("first_line", FIRST_LINES)
def test_what_came_before_changes_nothing(first_line: bytes, lines: bytes) -> None:
    heads = RequestHeads()
    head = first_line + b"\r\n" + lines

    for before in FIRST_LINES:
        outcome(before + b"\r\n" + lines, heads)

        assert outcome(head, heads) == outcome(head)
        assert outcome(head, heads) == outcome(head)


@settings(max_examples=500)
@given(st.lists(st.binary(max_size=6), min_size=2, max_size=2))
def test_whatever_the_target_it_is_read_as_if_it_had_been_the_first(targets: list[bytes]) -> None:
    heads = RequestHeads()

    for target in (b"", *targets):
        head = b"GET /" + target + b" HTTP/1.1\r\n" + LINES

        assert outcome(head, heads) == outcome(head)


def test_only_a_whole_head_and_nothing_else_is_known_without_looking_for_its_end() -> None:
    heads = RequestHeads()
    first = heads.read(GET)

    assert heads.known(GET) is first
    for other in (b"", b"\r\n", GET[:-1], GET + b"x", GET + GET, b"\r\n" + GET, LINES, GET[:40]):
        assert heads.known(other) is None


def test_a_head_that_is_too_long_is_not_known() -> None:
    heads = RequestHeads()
    heads.read(GET)

    assert heads.known(b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n" + LINES) is None


def test_nothing_is_known_before_the_first() -> None:
    assert RequestHeads().known(b"GET / HTTP/1.1") is None
