"""Request heads of one connection: the same requests, in whatever pieces their bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.serving.limits.connections import ConnectionLimits
from proxy.serving.request_head_reader import RejectedHead, RequestHeadReader
from proxy.wire.http1.message import MAX_HEAD_BYTES, UNPARSED_HEAD, RequestHead
from tests.wire.http1.test_body import split_at

LIMITS = ConnectionLimits(header_lines=10, header_line_bytes=1000, target_bytes=500)
PODS = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n"
NODES = b"GET /api/v1/nodes HTTP/1.1\r\nHost: a\r\n\r\n"
KIB = 1024


def read(reader: RequestHeadReader, piece: bytes) -> list[RequestHead]:
    """Pass a piece to the reader as a connection does, and return the complete requests."""
    requests = []
    if reader.buffer:
        reader.buffer += piece
    else:
        single = reader.read_single(piece, LIMITS)
        if single is not None:
            return [single]
    while reader.buffer and (request := reader.read_next(LIMITS)) is not None:
        requests.append(request)
    return requests


def test_a_head_that_arrives_alone_is_not_buffered() -> None:
    reader = RequestHeadReader()

    request = reader.read_single(PODS, LIMITS)

    assert request is not None
    assert request.target == b"/api/v1/pods"
    assert reader.buffer == b""


@pytest.mark.parametrize("pieces", [[PODS], [PODS[:20], PODS[20:]], [NODES + PODS]])
def test_an_equal_head_is_the_same_request_however_it_arrives(pieces: list[bytes]) -> None:
    reader = RequestHeadReader()
    first = reader.read_single(PODS, LIMITS)

    requests = [request for piece in pieces for request in read(reader, piece)]

    assert requests[-1] is first


@given(
    st.lists(st.sampled_from([PODS, NODES, b"HEAD" + PODS[3:]]), min_size=1, max_size=5),
    st.lists(st.integers(min_value=0), max_size=8),
)
def test_the_pieces_of_heads_change_nothing(heads: list[bytes], cuts: list[int]) -> None:
    reader = RequestHeadReader()

    requests = [
        request for piece in split_at(b"".join(heads), cuts) for request in read(reader, piece)
    ]

    assert [(request.method, request.target) for request in requests] == [
        tuple(head.split(b" ")[:2]) for head in heads
    ]
    assert reader.buffer == b""


def test_bytes_behind_a_head_stay_in_the_buffer() -> None:
    reader = RequestHeadReader()

    requests = read(reader, PODS + NODES[:10])

    assert [request.target for request in requests] == [b"/api/v1/pods"]
    assert reader.buffer == NODES[:10]
    assert reader.searched == 10


TOO_MANY_LINES = PODS[:-2] + b"a: b\r\n" * 10 + b"\r\n"
LONG_LINE = PODS[:-2] + b"a: %b\r\n\r\n" % (b"b" * 1000)
LONG_TARGET = PODS.replace(b"pods", b"p" * 500)


@pytest.mark.parametrize(
    ("head", "code"),
    [(TOO_MANY_LINES, 431), (LONG_LINE, 431), (LONG_TARGET, 414), (b"\r\n\r\n", 400)],
)
@pytest.mark.parametrize("cut", [0, 2])
def test_a_head_beyond_a_limit_is_rejected_alone_and_in_pieces(
    head: bytes, code: int, cut: int
) -> None:
    reader = RequestHeadReader()

    assert read(reader, head[:cut]) == []

    with pytest.raises(RejectedHead) as rejected:
        read(reader, head[cut:])

    assert rejected.value.error.code == code


def test_a_rejected_target_is_known_for_the_audit_and_a_malformed_head_is_not() -> None:
    for head, method in ((LONG_TARGET, b"GET"), (b"GET pods\r\n\r\n", UNPARSED_HEAD.method)):
        with pytest.raises(RejectedHead) as rejected:
            RequestHeadReader().read_single(head, LIMITS)
        assert rejected.value.request.method == method


@pytest.mark.parametrize(
    ("incomplete", "code"),
    [
        (b"GET /" + b"a" * 64 * KIB, 414),
        (PODS[:-2] + b"a: " + b"b" * 64 * KIB, 431),
        (PODS[:-2] + b"a: b\r\n" * (MAX_HEAD_BYTES // 6), 431),
    ],
    ids=["target", "line", "head"],
)
def test_an_incomplete_head_is_rejected_as_soon_as_it_cannot_become_acceptable(
    incomplete: bytes, code: int
) -> None:
    with pytest.raises(RejectedHead) as rejected:
        read(RequestHeadReader(), incomplete)

    assert rejected.value.error.code == code
    assert rejected.value.request.method == b"GET"


def test_the_cache_of_an_idle_connection_can_be_freed() -> None:
    reader = RequestHeadReader()
    first = reader.read_single(PODS, LIMITS)

    reader.clear_cache()

    assert reader.read_single(PODS, LIMITS) is not first
