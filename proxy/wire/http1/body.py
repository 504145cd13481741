"""Where a body ends: by length, by chunks, or with the connection.

Bodies never go through the head parser. A reader splits what arrives into payload and what comes
after the body; a writer frames payload anew, so that no chunk extension, trailer or odd spelling
of a size ever crosses the proxy (`passed_chunks.py`: frames that need not be made anew).
"""

import re
from enum import Enum, auto
from typing import ClassVar, NamedTuple, Protocol

from proxy.core.errors import BadRequest

MAX_SIZE_LINE_BYTES = 4096
# As much as Go reads.
MAX_TRAILER_BYTES = 4096

# Sixteen hexadecimal digits are 2^64; extensions are read and forgotten, but a control character
# in one (a bare line feed above all) is how two parsers come to disagree, so it is refused.
_PLAIN_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_CRLF = b"\r\n"
# Size lines as most senders spell them, and the sizes; the end of the body is not among them.
ONE_DIGIT_SIZE_LINES = {b"%x\r\n" % size: size for size in range(1, 0x10)}
_ONE_DIGIT = {
    **ONE_DIGIT_SIZE_LINES,
    **{line.upper(): size for line, size in ONE_DIGIT_SIZE_LINES.items()},
}
_TWO_DIGITS = {b"%x\r\n" % size: size for size in range(0x10, 0x100)}
# The same without their line ends, in small letters.
_PLAIN_SIZES = {b"%x" % size: size for size in range(1, 0x100)}
# After so many tiny chunks in a row more of them are expected, and read at once: from this many
# bytes, and from twice as many as long as it works. A failed attempt doubles the first number.
_MANY_CHUNKS = 16
_FIRST_WINDOW_BYTES = 64
_LAST_WINDOW_BYTES = 16 * 1024
# Whoever spells sizes oddly (zeros before them, extensions) sends large chunks. So many small ones
# are an attempt to make us work: such a chunk costs four times what a plain one does.
_SMALL_BYTES = 64
_MOST_ODD_CHUNKS = 500


class BodyError(BadRequest):
    """The framing of a body is broken; nothing after it on this connection can be trusted."""


class BodyKind(Enum):
    """How the end of a body is known."""

    NONE = auto()
    LENGTH = auto()
    CHUNKED = auto()
    UNTIL_CLOSE = auto()


class BodyFraming(NamedTuple):
    """How one message's body is delimited; `length` counts only for `LENGTH`."""

    kind: BodyKind
    length: int = 0

    @property
    def has_body(self) -> bool:
        """Tell whether any byte follows the head."""
        return self.kind is not BodyKind.NONE and (
            self.length > 0 or self.kind is not BodyKind.LENGTH
        )

    def frame(self, payload: bytes) -> bytes:
        """Return payload as it goes on the wire."""
        if self.kind is BodyKind.CHUNKED:
            return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""
        return payload

    def terminator(self) -> bytes:
        """Return what ends the body on the wire."""
        return b"0\r\n\r\n" if self.kind is BodyKind.CHUNKED else b""


NO_BODY = BodyFraming(BodyKind.NONE)
CHUNKED = BodyFraming(BodyKind.CHUNKED)
UNTIL_CLOSE = BodyFraming(BodyKind.UNTIL_CLOSE)


class BodyReader(Protocol):
    """Splits arriving bytes into payload and what follows the body."""

    @property
    def is_between_chunks(self) -> bool:
        """Tell whether a body of unknown length could have ended here by its sender's framing."""
        ...

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return payload, and None while the body goes on or the bytes after its end."""
        ...

    def end_of_stream(self) -> bool:
        """Tell whether the body is complete if the connection ends here."""
        ...


class LengthReader:
    """A body of a known number of bytes."""

    __slots__ = ("_remaining",)

    is_between_chunks = False

    def __init__(self, length: int) -> None:
        self._remaining = length

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Count the payload down; the bytes past its end are returned."""
        remaining = self._remaining - len(data)
        if remaining > 0:
            self._remaining = remaining
            return data, None
        self._remaining = 0
        if remaining == 0:
            return data, b""
        return data[:remaining], data[remaining:]

    def end_of_stream(self) -> bool:
        """A body that is short of its length was cut."""
        return self._remaining == 0


class UntilCloseReader:
    """A response body that ends with its connection."""

    __slots__ = ()

    is_between_chunks = True

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Everything that comes is payload."""
        return data, None

    def end_of_stream(self) -> bool:
        """The end of the connection is the end of the body."""
        return True


class ChunkedReader:
    """A chunked body, read strictly: CRLF only, trailers dropped."""

    _one_digit: ClassVar[dict[bytes, int]] = _ONE_DIGIT

    __slots__ = (
        "_chunk_left",
        "_in_trailers",
        "_many_chunks",
        "_odd_chunks",
        "_partial",
        "_trailer_bytes",
    )

    def __init__(self) -> None:
        self._partial = b""
        self._odd_chunks = 0
        self._many_chunks = _MANY_CHUNKS
        # Payload bytes still to come in this chunk, then two for its CRLF; 0 means a size line
        # (or, after the last chunk, a trailer line) comes next.
        self._chunk_left = 0
        self._in_trailers = False
        self._trailer_bytes = 0

    @property
    def is_between_chunks(self) -> bool:
        """Tell whether the last chunk was read with its end, and nothing of the next one."""
        return not (self._chunk_left or self._partial or self._in_trailers)

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return the payload of all chunks in `data` as one piece."""
        left = self._chunk_left - len(data)
        if left >= 2:  # noqa: PLR2004 - CR and LF are two
            # All of it is of one chunk that is still going on, as most of a large body is.
            self._chunk_left = left
            return data, None
        if self._partial:
            data, self._partial = self._partial + data, b""
        if not self._chunk_left and not self._in_trailers:
            match = _PLAIN_SIZE_LINE.match(data)
            if match is not None:
                start, end = match.end(), match.end() + int(match[1], 16)
                if start < end == len(data) - 2 and data[-2:] == b"\r\n":
                    # One chunk and nothing else, as most events of a watch come.
                    return data[start:end], None
        return self._read_chunks(data)

    def end_of_stream(self) -> bool:
        """The last chunk and its empty line were not seen, else `feed` had said so."""
        return False

    def _read_chunks(self, data: bytes) -> tuple[bytes, bytes | None]:
        pieces: list[bytes] = []
        position = 0
        self._many_chunks = _MANY_CHUNKS
        while position < len(data):
            if self._in_trailers:
                return b"".join(pieces), self._read_trailers(data, position)
            if self._chunk_left:
                position = self._read_chunk(data, position, pieces)
                continue
            start = position
            position = self._read_tiny_chunks(data, start, pieces)
            if position == start:
                position = self._start_chunk(data, position, pieces)
        return b"".join(pieces), None

    def _read_tiny_chunks(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        """Read whole chunks of up to 255 bytes, as long as they follow each other.

        In one loop without calls of ours, because a body may consist of nothing else.
        """
        end, many = len(data), len(pieces) + self._many_chunks
        one_digit = self._one_digit
        while position < end:
            start = position + 3
            size = one_digit.get(data[position:start])
            if size is None:
                start += 1
                size = _TWO_DIGITS.get(data[position:start])
                if size is None:
                    break
            stop = start + size
            if data[stop : stop + 2] != _CRLF:
                break
            pieces.append(data[start:stop])
            position = stop + 2
            if len(pieces) == many:
                position = self._split_tiny_chunks(data, position, pieces)
                many = len(pieces) + self._many_chunks
        return position

    def _split_tiny_chunks(self, data: bytes, position: int, payloads: list[bytes]) -> int:
        """Add the payloads of the tiny chunks that begin here, and return the position after them.

        Many at once, in half the time that a loop over them takes. It stops where a chunk is not
        tiny, where its size is spelled otherwise, and where a payload holds a line end.
        """
        window, end = _FIRST_WINDOW_BYTES, len(data)
        while position < end:
            # Size, payload, size, payload, and what comes after the last line end.
            lines = data[position : position + window].split(_CRLF)
            count = (len(lines) - 1) // 2
            sizes, found = lines[0 : 2 * count : 2], lines[1 : 2 * count : 2]
            said, lengths = list(map(_PLAIN_SIZES.get, sizes)), list(map(len, found))
            if said != lengths or not count:
                self._many_chunks *= 2
                count = next((at for at in range(count) if said[at] != lengths[at]), 0)
            payloads += found[:count]
            position += sum(map(len, sizes[:count])) + sum(lengths[:count]) + 4 * count
            if count < len(sizes) or not count:
                break
            window = min(2 * window, _LAST_WINDOW_BYTES)
        return position

    def _read_chunk(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        payload_left = self._chunk_left - 2
        if payload_left > 0:
            piece = data[position : position + payload_left]
            self._take_payload(piece, pieces)
            self._chunk_left -= len(piece)
            return position + len(piece)
        # One or two bytes of the CRLF behind the payload are due.
        expected = b"\r" if self._chunk_left == 2 else b"\n"  # noqa: PLR2004 - CR and LF are two
        if data[position : position + 1] != expected:
            raise BodyError("malformed chunk in the body")
        self._chunk_left -= 1
        if not self._chunk_left:
            self._close_chunk(pieces)
        return position + 1

    def _start_chunk(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        """Read a size line, and the chunk with it if all of that is at hand."""
        line_end = data.find(b"\n", position) + 1
        if (line_end or len(data)) - position > MAX_SIZE_LINE_BYTES:
            raise BodyError("malformed chunk size in the body")
        if not line_end:
            self._partial = data[position:]
            return len(data)
        match = _SIZE_LINE.match(data, position)
        if match is None:
            raise BodyError("malformed chunk size in the body")
        size = int(match[1], 16)
        if not size:
            self._in_trailers = True
            return line_end
        if size < _SMALL_BYTES and data[position:line_end] != b"%x\r\n" % size:
            self._count_odd_chunk()
        self._open_chunk(size, pieces)
        end = line_end + size
        if data[end : end + 2] == b"\r\n":
            # Most are whole. In one step, so that a body of tiny chunks costs little.
            self._take_payload(data[line_end:end], pieces)
            self._close_chunk(pieces)
            return end + 2
        self._chunk_left = size + 2
        return line_end

    def _count_odd_chunk(self) -> None:
        self._odd_chunks += 1
        if self._odd_chunks > _MOST_ODD_CHUNKS:
            raise BodyError("too many small chunks with odd sizes in the body")

    def _open_chunk(self, size: int, pieces: list[bytes]) -> None:
        """Learn how large the next chunk is; whoever keeps its frame adds that to the pieces."""

    def _take_payload(self, payload: bytes, pieces: list[bytes]) -> None:
        pieces.append(payload)

    def _close_chunk(self, pieces: list[bytes]) -> None:
        """Learn that a chunk has ended."""

    def _read_trailers(self, data: bytes, position: int) -> bytes | None:
        """Drop trailer lines; return what comes after them, or None while they go on."""
        while (end := data.find(b"\n", position)) >= 0:
            if end == position or data[end - 1 : end] != b"\r":
                raise BodyError("malformed chunk in the body")
            if end == position + 1:
                return data[end + 1 :]
            self._count_trailers(end + 1 - position)
            position = end + 1
        if len(data) - position > MAX_TRAILER_BYTES:
            raise BodyError("too many trailers after the body")
        self._partial = data[position:]
        return None

    def _count_trailers(self, count: int) -> None:
        self._trailer_bytes += count
        if self._trailer_bytes > MAX_TRAILER_BYTES:
            raise BodyError("too many trailers after the body")


def body_reader(framing: BodyFraming) -> BodyReader | None:
    """Return a reader for one body, or None when there is no body."""
    match framing.kind:
        case BodyKind.NONE:
            return None
        case BodyKind.LENGTH:
            return LengthReader(framing.length) if framing.length else None
        case BodyKind.CHUNKED:
            return ChunkedReader()
        case BodyKind.UNTIL_CLOSE:
            return UntilCloseReader()
