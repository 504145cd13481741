"""Where bodies end, whatever pieces they come in."""

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.http1.body import (
    CHUNKED,
    MAX_SIZE_LINE_BYTES,
    MAX_TRAILER_BYTES,
    NO_BODY,
    UNTIL_CLOSE,
    BodyError,
    BodyFraming,
    BodyKind,
    BodyReader,
    ChunkedReader,
    LengthReader,
    UntilCloseReader,
    body_reader,
)

Split = Callable[[bytes], list[bytes]]
NEXT = b"GET /next HTTP/1.1\r\n"


def read(reader: BodyReader, *pieces: bytes) -> tuple[bytes, bytes | None]:
    """Feed pieces until the body ends; pieces after its end are left over, too."""
    payload, rest = b"", None
    for piece in pieces:
        if rest is not None:
            rest += piece
            continue
        got, rest = reader.feed(piece)
        payload += got
    return payload, rest


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


def chunked(chunks: list[bytes], *, trailers: bytes = b"") -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return framed + b"0\r\n" + trailers + b"\r\n"


# --- chunked -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [lambda data: [data], bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize(
    ("wire", "payload"),
    [
        (b"0\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", b"hello world"),
        (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"0000000000000005\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5;name=value\r\nhello\r\n0;last\r\n\r\n", b"hello"),
        (b'5 ; a="b c"\r\nhello\r\n0\r\n\r\n', b"hello"),
        (b"5 \r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n"),
        (b"5\r\nhello\r\n0\r\nImpersonate-User: root\r\nX: y\r\n\r\n", b"hello"),
    ],
)
def test_a_chunked_body_is_read_whole(wire: bytes, payload: bytes, pieces: Split) -> None:
    assert read(ChunkedReader(), *pieces(wire + NEXT)) == (payload, NEXT)


@pytest.mark.parametrize("pieces", [lambda data: [data], bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"5\nhello\r\n0\r\n\r\n", id="bare line feed after a size"),
        pytest.param(b"5\r\nhello\n0\r\n\r\n", id="bare line feed after a chunk"),
        pytest.param(b"5\r\nhello\r\n0\r\n\n", id="bare line feed after the last chunk"),
        pytest.param(b"5\r\nhello\r\n0\nX: y\r\n\r\n", id="bare line feed before trailers"),
        pytest.param(b"5\r\nhello\r\n0\r\nX: y\n\r\n", id="bare line feed in trailers"),
        pytest.param(b"5\rhello\r\n0\r\n\r\n", id="bare carriage return"),
        pytest.param(b"5;a\rb\r\nhello\r\n0\r\n\r\n", id="carriage return in an extension"),
        pytest.param(b"5;a\x00b\r\nhello\r\n0\r\n\r\n", id="NUL in an extension"),
        pytest.param(b"+5\r\nhello\r\n0\r\n\r\n", id="plus sign"),
        pytest.param(b"-5\r\nhello\r\n0\r\n\r\n", id="minus sign"),
        pytest.param(b"0x5\r\nhello\r\n0\r\n\r\n", id="hexadecimal prefix"),
        pytest.param(b" 5\r\nhello\r\n0\r\n\r\n", id="leading blank"),
        pytest.param(b"5_0\r\nhello\r\n0\r\n\r\n", id="underscore"),
        pytest.param(b"g\r\nhello\r\n0\r\n\r\n", id="no digit"),
        pytest.param(b"\r\nhello\r\n0\r\n\r\n", id="no size"),
        pytest.param(b";a\r\nhello\r\n0\r\n\r\n", id="only an extension"),
        pytest.param(b"5\r\nhelloX\r\n0\r\n\r\n", id="chunk longer than its size"),
        pytest.param(b"5\r\nhelloXY0\r\n\r\n", id="chunk without its line end"),
        pytest.param(b"5\r\nhello\rY0\r\n\r\n", id="chunk with half its line end"),
        pytest.param(b"6\r\nhello\r\n0\r\n\r\n", id="chunk shorter than its size"),
        pytest.param(b"10000000000000000\r\nhello", id="a size past 64 bits"),
        pytest.param(b"\xd9\xa5\r\nhello\r\n0\r\n\r\n", id="a digit of another script"),
    ],
)
def test_doubtful_chunks_are_refused(wire: bytes, pieces: Split) -> None:
    with pytest.raises(BodyError):
        read(ChunkedReader(), *pieces(wire))


def test_the_largest_size_is_taken_at_its_word() -> None:
    payload, rest = ChunkedReader().feed(b"ffffffffffffffff\r\nhello")

    assert (payload, rest) == (b"hello", None)


@pytest.mark.parametrize("pieces", [lambda data: [data], bytewise], ids=["whole", "bytewise"])
def test_a_size_line_has_a_limit(pieces: Split) -> None:
    extension = b"5;" + b"a" * MAX_SIZE_LINE_BYTES

    with pytest.raises(BodyError):
        read(ChunkedReader(), *pieces(extension + b"\r\nhello\r\n0\r\n\r\n"))


def test_trailers_have_a_limit_in_one_line_and_in_many() -> None:
    one_line = b"0\r\n" + b"a" * (MAX_TRAILER_BYTES + 1)
    many_lines = b"0\r\n" + b"name: value\r\n" * (MAX_TRAILER_BYTES // 13 + 1)

    for wire in (one_line, many_lines):
        with pytest.raises(BodyError):
            ChunkedReader().feed(wire)


@pytest.mark.parametrize("odd", [b"01\r\nx\r\n", b"1;a\r\nx\r\n", b"0A\r\nxxxxxxxxxx\r\n"])
def test_small_chunks_of_odd_sizes_have_a_limit_in_number(odd: bytes) -> None:
    reader = ChunkedReader()
    reader.feed(odd * 500)

    with pytest.raises(BodyError, match="too many small chunks"):
        reader.feed(odd * 2)


def test_large_chunks_of_odd_sizes_have_no_limit_in_number() -> None:
    payload, _ = ChunkedReader().feed(b"00000040\r\n%b\r\n" % (b"x" * 64) * 2000)

    assert len(payload) == 64 * 2000


@pytest.mark.parametrize(
    ("wire", "piece"),
    [
        pytest.param(b"1\r\nx\r\n" * 40_000, 262_144, id="tiny chunks"),
        pytest.param(b"1\r\nx\r\n" * 10_000, 1, id="tiny chunks, bytewise"),
        pytest.param((b"1;%b\r\nx\r\n" % (b"a" * 4000)) * 15, 1, id="long size lines, bytewise"),
        pytest.param(b"0\r\n" + b"a" * 4_000, 1, id="a long trailer, bytewise"),
        pytest.param(b"0\r\n" + b"a:\r\n" * 1_000, 262_144, id="many trailers"),
    ],
)
def test_no_framing_costs_much_more_than_its_bytes(wire: bytes, piece: int) -> None:
    """Some 0.1 s was seen for the dearest; whatever is read over and over takes far longer."""
    reader = ChunkedReader()
    started = time.thread_time()

    for start in range(0, len(wire), piece):
        reader.feed(wire[start : start + piece])

    assert time.thread_time() - started < 1


def test_a_chunked_body_is_incomplete_until_its_last_line() -> None:
    reader = ChunkedReader()

    assert read(reader, b"5\r\nhello\r\n0\r\n") == (b"hello", None)
    assert not reader.end_of_stream()


@given(
    chunks=st.lists(st.binary(max_size=40), max_size=8),
    trailers=st.sampled_from([b"", b"X-A: b\r\n", b"Authorization: c\r\nX: y\r\n"]),
    rest=st.binary(max_size=20),
    cuts=st.lists(st.integers(min_value=0), max_size=12),
)
def test_however_it_is_split_a_chunked_body_means_the_same(
    chunks: list[bytes], trailers: bytes, rest: bytes, cuts: list[int]
) -> None:
    wire = chunked(chunks, trailers=trailers) + rest

    assert read(ChunkedReader(), *split_at(wire, cuts)) == (b"".join(chunks), rest)


@given(wire=st.binary(max_size=60), cuts=st.lists(st.integers(min_value=0), max_size=6))
def test_whatever_comes_splitting_it_does_not_change_the_verdict(
    wire: bytes, cuts: list[int]
) -> None:
    def verdict(pieces: list[bytes]) -> tuple[bytes, bytes | None] | str:
        try:
            return read(ChunkedReader(), *pieces)
        except BodyError:
            return "refused"

    assert verdict([wire] if wire else []) == verdict(split_at(wire, cuts))


# --- by length and by the end of the connection ------------------------------------------------


@pytest.mark.parametrize("pieces", [lambda data: [data], bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize("payload", [b"a", b"hello", b"x" * 100])
def test_a_body_of_known_length_ends_there(payload: bytes, pieces: Split) -> None:
    assert read(LengthReader(len(payload)), *pieces(payload + NEXT)) == (payload, NEXT)


def test_a_body_short_of_its_length_is_cut() -> None:
    reader = LengthReader(5)

    assert reader.feed(b"hell") == (b"hell", None)
    assert not reader.end_of_stream()
    assert reader.feed(b"o") == (b"o", b"")
    assert reader.end_of_stream()


def test_a_body_that_ends_with_its_connection_takes_everything() -> None:
    reader = UntilCloseReader()

    assert reader.feed(b"anything") == (b"anything", None)
    assert reader.end_of_stream()


# --- framing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("framing", "reader", "has_body"),
    [
        (NO_BODY, type(None), False),
        (BodyFraming(BodyKind.LENGTH, 0), type(None), False),
        (BodyFraming(BodyKind.LENGTH, 1), LengthReader, True),
        (CHUNKED, ChunkedReader, True),
        (UNTIL_CLOSE, UntilCloseReader, True),
    ],
)
def test_each_framing_has_its_reader(
    framing: BodyFraming, reader: type[object], has_body: object
) -> None:
    assert type(body_reader(framing)) is reader
    assert framing.has_body is has_body


@pytest.mark.parametrize("framing", [BodyFraming(BodyKind.LENGTH, 5), UNTIL_CLOSE])
def test_payload_that_needs_no_frame_goes_as_it_is(framing: BodyFraming) -> None:
    assert framing.frame(b"hello") + framing.terminator() == b"hello"


def test_an_empty_piece_does_not_end_a_chunked_body() -> None:
    assert CHUNKED.frame(b"") == b""


@given(pieces=st.lists(st.binary(max_size=300), max_size=8))
def test_what_we_frame_reads_back_the_same(pieces: list[bytes]) -> None:
    wire = b"".join(CHUNKED.frame(piece) for piece in pieces) + CHUNKED.terminator()

    assert read(ChunkedReader(), wire) == (b"".join(pieces), b"")


def test_a_chunked_body_is_between_chunks_only_where_one_has_ended() -> None:
    reader = ChunkedReader()
    between = [reader.is_between_chunks]
    for byte in b"3\r\nabc\r\n1;x\r\nd\r\n0\r\n":
        reader.feed(bytes([byte]))
        between.append(reader.is_between_chunks)

    whole = "3\r\nabc\r\n"
    also = "1;x\r\nd\r\n"
    assert [place for place, is_between in enumerate(between) if is_between] == [
        0,
        len(whole),
        len(whole + also),
    ]


def test_only_a_body_of_unknown_length_has_places_where_it_could_end() -> None:
    assert UntilCloseReader().is_between_chunks
    assert not LengthReader(5).is_between_chunks
