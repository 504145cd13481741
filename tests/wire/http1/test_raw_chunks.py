"""Chunks that keep their frames: what is passed on is what we would have framed ourselves."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.http1.body import (
    CHUNKED,
    BodyError,
    BodyReader,
    ChunkedReader,
)
from proxy.wire.http1.raw_chunks import RawChunkReader
from tests.wire.http1.test_body import bytewise, chunked, read, split_at

SPELLINGS = ("%x", "%X", "0%x", "%x;a=b", "%x ", '%X ; n="v"')


@st.composite
def spelled(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Draw chunks, and a body that has them in any spelling of their sizes."""
    chunks = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=8))
    wire = b"".join(
        b"%b\r\n%b\r\n" % ((draw(st.sampled_from(SPELLINGS)) % len(chunk)).encode(), chunk)
        for chunk in chunks
    )
    return chunks, wire + draw(st.sampled_from([b"0\r\n\r\n", b"00;x\r\nSet-Cookie: a\r\n\r\n"]))


CUTS = st.lists(st.integers(min_value=0), max_size=12)


@given(body=spelled(), rest=st.binary(max_size=20), cuts=CUTS)
def test_whatever_the_spelling_and_the_pieces_every_chunk_leaves_in_our_frame(
    body: tuple[list[bytes], bytes], rest: bytes, cuts: list[int]
) -> None:
    chunks, wire = body
    reader = RawChunkReader()

    passed, left = read(reader, *split_at(wire + rest, cuts))

    assert passed == b"".join(map(CHUNKED.frame, chunks))
    assert left == rest
    assert reader.payload_bytes == sum(map(len, chunks))
    assert reader.last_byte == (chunks[-1][-1] if chunks else ord("\n"))


@given(body=spelled(), cuts=CUTS)
def test_at_every_moment_it_stands_where_a_reader_of_payload_stands(
    body: tuple[list[bytes], bytes], cuts: list[int]
) -> None:
    """What has left can be read back to what that reader knows, and so can be ended there."""
    passing, reading = RawChunkReader(), ChunkedReader()
    passed = payload = b""

    for piece in split_at(body[1], cuts):
        passed += passing.feed(piece)[0]
        payload += reading.feed(piece)[0]

        assert passing.is_between_chunks == reading.is_between_chunks
        assert passing.payload_bytes == len(payload)
        assert read(ChunkedReader(), passed)[0] == payload
        if passing.is_between_chunks:
            assert read(ChunkedReader(), passed + CHUNKED.terminator()) == (payload, b"")


def outcome(reader: BodyReader, pieces: list[bytes]) -> tuple[bytes, bytes | None] | None:
    try:
        return read(reader, *pieces)
    except BodyError:
        return None


@given(
    body=spelled(),
    at=st.integers(min_value=0),
    wrong=st.binary(max_size=3),
    removed=st.integers(min_value=0, max_value=3),
    cuts=CUTS,
)
def test_what_a_reader_of_payload_refuses_is_refused(
    body: tuple[list[bytes], bytes], at: int, wrong: bytes, removed: int, cuts: list[int]
) -> None:
    at %= len(body[1])
    pieces = split_at(body[1][:at] + wrong + body[1][at + removed :], cuts)
    passing = RawChunkReader()

    passed, expected = outcome(passing, pieces), outcome(ChunkedReader(), pieces)

    assert (passed is None) == (expected is None)
    if passed is not None and expected is not None:
        assert passed[1] == expected[1]
        assert read(ChunkedReader(), passed[0])[0] == expected[0]


@pytest.mark.parametrize("end", [b"XX", b"\rX", b"X\n", b"\n\r", b"\n\n"])
@pytest.mark.parametrize("before", [b"", b"3\r\none\r\n"], ids=["alone", "after another"])
@pytest.mark.parametrize("after", [b"", b"0\r\n\r\n"], ids=["so far", "to the end"])
def test_a_chunk_that_does_not_end_where_it_says_is_refused(
    before: bytes, end: bytes, after: bytes
) -> None:
    """It is as long as it should be, so nothing but its end tells."""
    wire = before + b"5\r\nhello" + end + after

    for pieces in ([wire], bytewise(wire)):
        with pytest.raises(BodyError):
            read(RawChunkReader(), *pieces)


def test_of_a_piece_that_is_refused_nothing_is_counted() -> None:
    reader = RawChunkReader()
    reader.feed(b"5\r\nhello\r\n")

    with pytest.raises(BodyError):
        reader.feed(b"3\r\none\r\n3\r\ntwo!\r\n")

    assert reader.payload_bytes == 5


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"5\r\nhello\r\n"], id="a chunk"),
        pytest.param([b"fffff\r\n", b"x" * 500, b"y" * 500], id="of a large chunk"),
    ],
)
def test_what_came_in_our_frame_is_not_copied(pieces: list[bytes]) -> None:
    reader = RawChunkReader()
    *_, (last, _rest) = [reader.feed(piece) for piece in pieces]

    assert last is pieces[-1]


def test_the_last_chunk_is_not_passed_on_and_neither_are_trailers() -> None:
    wire = chunked([b"hello"], trailers=b"Impersonate-User: root\r\n")

    for pieces in ([wire], bytewise(wire)):
        assert read(RawChunkReader(), *pieces) == (b"5\r\nhello\r\n", b"")


@pytest.mark.parametrize("piece", [1, 262_144])
def test_tiny_chunks_cost_no_more_than_their_bytes(piece: int) -> None:
    wire = b"1\r\nx\r\n" * 10_000
    reader = RawChunkReader()
    started = time.thread_time()

    for start in range(0, len(wire), piece):
        reader.feed(wire[start : start + piece])

    assert time.thread_time() - started < 1


@pytest.mark.parametrize("reader", [ChunkedReader, RawChunkReader])
@pytest.mark.parametrize("seed", range(20))
def test_many_tiny_chunks_are_read_as_they_are_one_byte_at_a_time(
    reader: type[ChunkedReader], seed: int
) -> None:
    """Payloads hold line ends and size lines, so that a wrong boundary shows."""
    choice = random.Random(seed)
    payloads = [
        bytes(choice.choices(b"\r\n1a", k=choice.choice((1, 2, 3, 17)))) for _ in range(300)
    ]
    plain = [bytes(choice.choices(b"1a\r", k=choice.choice((1, 2, 16)))) for _ in range(300)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in plain + payloads)
    at_once, bytewise = reader(), reader()

    read, rest = at_once.feed(body + b"0\r\n\r\nnext")

    expected = b"".join(bytewise.feed(body[at : at + 1])[0] for at in range(len(body)))
    assert (read, rest) == (expected, b"next")
    assert read == (b"".join(plain + payloads) if reader is ChunkedReader else body)
