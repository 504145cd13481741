"""A head read after another one of its connection is read as if it had been the first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.errors import StatusError
from proxy.wire.http1.body import BodyFraming, BodyKind
from proxy.wire.http1.message import MAX_HEAD_BYTES, RequestHead, parse_request_head
from proxy.wire.http1.request_parser import CachingRequestParser

LINES = b"Host: a\r\nAuthorization: Bearer t\r\nImpersonate-User: alice\r\n\r\n"
GET = b"GET /api/v1/pods HTTP/1.1\r\n" + LINES


def parsed(heads: CachingRequestParser, head: bytes) -> RequestHead:
    """Parse a head as the reader of a connection does: it is looked up first."""
    return heads.find(head) or heads.parse(head)


def outcome(head: bytes, heads: CachingRequestParser | None = None) -> RequestHead | str:
    try:
        # The cache says nothing about the bytes.
        return (
            parse_request_head(head) if heads is None else parsed(heads, head)._replace(cache=None)
        )
    except StatusError as refusal:
        return refusal.message


def test_only_the_target_is_new_where_the_lines_are_the_same() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, GET)

    second = parsed(heads, b"GET /api/v1/nodes HTTP/1.1\r\n" + LINES)

    assert second.target == b"/api/v1/nodes"
    assert second.headers is first.headers


def test_the_same_target_under_other_lines_carries_the_other_lines() -> None:
    heads = CachingRequestParser()
    parsed(heads, GET)

    second = parsed(heads, GET.replace(b"alice", b"bobby"))

    assert (b"Impersonate-User", b"bobby") in second.headers


def test_what_was_forgotten_is_read_anew() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, GET)

    heads.clear()

    assert heads.find(GET) is None
    second = parsed(heads, GET)
    assert second.headers is not first.headers
    assert second.cache is not first.cache
    assert second._replace(cache=None) == first._replace(cache=None)


def posting(length: int, target: bytes = b"/api/v1/pods", *, method: bytes = b"POST") -> bytes:
    lines = b"Content-Length: %d\r\n%b" % (length, LINES)
    return b"%b %b HTTP/1.1\r\n%b" % (method, target, lines)


def test_lines_of_a_request_with_a_body_are_known_again_and_nothing_is_noted_on_it() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, posting(3))

    again, elsewhere = parsed(heads, posting(3)), parsed(heads, posting(3, b"/api/v1/nodes"))

    assert again.headers is elsewhere.headers is first.headers
    assert (again, elsewhere.target) == (first, b"/api/v1/nodes")
    assert again.framing == elsewhere.framing == BodyFraming(BodyKind.LENGTH, 3)
    assert again.cache is elsewhere.cache is None
    # Where its body begins is not known before its end was looked for.
    assert heads.find(posting(3)) is None


@pytest.mark.parametrize(
    "other",
    [posting(4), posting(3, method=b"PUT"), posting(3).replace(b"alice", b"bobby")],
    ids=["another length", "another method", "another identity"],
)
def test_of_requests_with_a_body_only_the_very_same_lines_are_known(other: bytes) -> None:
    heads = CachingRequestParser()
    first = parsed(heads, posting(3))

    second = parsed(heads, other)

    assert second.headers is not first.headers
    assert second == parse_request_head(other)


def test_bodies_of_all_lengths_make_nothing_forgotten() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, GET)

    for length in range(100):
        parsed(heads, posting(length))

    assert heads.find(GET) is first


def test_lines_of_a_request_with_a_body_are_forgotten_with_the_others() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, posting(3))

    heads.clear()

    assert parsed(heads, posting(3)).headers is not first.headers


def test_large_lines_of_a_request_with_a_body_are_not_kept() -> None:
    heads = CachingRequestParser()
    large = posting(3).replace(b"\r\n\r\n", b"\r\nX: %b\r\n\r\n" % (b"x" * 4096))

    assert parsed(heads, large).headers is not parsed(heads, large).headers


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
    b"Host: a\r\nX: " + b"x" * 9000 + b"\r\n\r\n",
    b"\r\n",
]


@pytest.mark.parametrize("lines", MANY_LINES, ids=range(len(MANY_LINES)))
@pytest.mark.parametrize("first_line", FIRST_LINES)
def test_what_came_before_changes_nothing(first_line: bytes, lines: bytes) -> None:
    heads = CachingRequestParser()
    head = first_line + b"\r\n" + lines

    for before in FIRST_LINES:
        outcome(before + b"\r\n" + lines, heads)

        assert outcome(head, heads) == outcome(head)
        assert outcome(head, heads) == outcome(head)


@settings(max_examples=500)
@given(st.lists(st.binary(max_size=6), min_size=2, max_size=2))
def test_whatever_the_target_it_is_read_as_if_it_had_been_the_first(targets: list[bytes]) -> None:
    heads = CachingRequestParser()

    for target in (b"", *targets):
        head = b"GET /" + target + b" HTTP/1.1\r\n" + LINES

        assert outcome(head, heads) == outcome(head)


def test_only_a_whole_head_and_nothing_else_is_known_without_looking_for_its_end() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, GET)

    assert heads.find(GET) is first
    for other in (b"", b"\r\n", GET[:-1], GET + b"x", GET + GET, b"\r\n" + GET, LINES, GET[:40]):
        assert heads.find(other) is None


def test_a_head_that_is_too_long_is_not_known() -> None:
    heads = CachingRequestParser()
    parsed(heads, GET)

    assert heads.find(b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n" + LINES) is None


def impersonating(user: bytes, target: bytes = b"/api/v1/pods") -> bytes:
    return b"GET %b HTTP/1.1\r\n%b" % (target, LINES.replace(b"alice", user))


def test_a_client_that_changes_whom_it_asks_for_is_known_each_time() -> None:
    heads = CachingRequestParser()
    users = [b"alice", b"bobby", b"carol", b"david"]
    first = {user: parsed(heads, impersonating(user)) for user in users}

    for user in users + users:
        assert heads.find(impersonating(user)) is first[user]
        assert (b"Impersonate-User", user) in first[user].headers


def test_requests_that_cannot_be_remembered_make_nothing_forgotten() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, GET)

    parsed(heads, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")

    assert heads.find(GET) is first


def test_another_method_with_the_same_lines_leaves_the_first_one_known() -> None:
    heads = CachingRequestParser()
    first = parsed(heads, GET)

    second = parsed(heads, b"DELETE" + GET.removeprefix(b"GET"))

    assert second.method == b"DELETE"
    assert heads.find(GET) is first


def test_lines_beyond_four_sets_begin_anew() -> None:
    heads = CachingRequestParser()
    for user in (b"alice", b"bobby", b"carol", b"david", b"erika"):
        parsed(heads, impersonating(user))

    assert heads.find(impersonating(b"erika")) is not None
    for user in (b"alice", b"bobby", b"carol", b"david"):
        assert heads.find(impersonating(user)) is None


def test_very_many_lines_are_not_remembered_however_short() -> None:
    heads = CachingRequestParser()
    head = b"GET / HTTP/1.1\r\nHost: a\r\n%b\r\n"

    parsed(heads, head % (b"a:\r\n" * 255))
    parsed(heads, head % (b"b:\r\n" * 256))

    assert heads.find(head % (b"a:\r\n" * 255)) is not None
    assert heads.find(head % (b"b:\r\n" * 256)) is None


def test_large_lines_have_the_room_of_two() -> None:
    heads = CachingRequestParser()
    names = [letter * 6000 for letter in (b"a", b"b", b"c")]
    for name in names:
        parsed(heads, impersonating(name))

    assert [heads.find(impersonating(name)) is not None for name in names] == [
        False,
        False,
        True,
    ]


def test_requests_are_counted_over_all_sets_of_lines() -> None:
    heads = CachingRequestParser()
    kept = [
        impersonating(user, b"/%d" % number) for user in (b"alice", b"bobby") for number in range(8)
    ]
    first = [parsed(heads, head) for head in kept]
    assert [heads.find(head) for head in kept] == first
    assert all(heads.find(head) is one for head, one in zip(kept, first, strict=True))

    parsed(heads, impersonating(b"alice", b"/more"))

    assert all(heads.find(head) is not one for head, one in zip(kept, first, strict=True))


def test_nothing_is_known_before_the_first() -> None:
    assert CachingRequestParser().find(b"GET / HTTP/1.1") is None
