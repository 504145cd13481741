"""Body framing: by length, by chunks, or until the connection closes.

Bodies never pass through the head parser. A reader splits received bytes into payload and the bytes
after the body. A writer frames payload again, so no chunk extension, trailer or unusual size
spelling crosses the proxy. `raw_chunks.py` handles frames that need not be rewritten.
"""

import re
from enum import Enum, auto
from typing import ClassVar, NamedTuple, Protocol

from proxy.core.errors import BadRequest

MAX_SIZE_LINE_BYTES = 4096
# Go's limit.
MAX_TRAILER_BYTES = 4096

# Sixteen hexadecimal digits are 2^64. Extensions are read and dropped. A control character in one,
# above all a bare line feed, can make two parsers disagree, so it is rejected.
_PLAIN_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_CRLF = b"\r\n"
# Size lines as most senders spell them, with their sizes. The last chunk (size 0) is not included.
ONE_DIGIT_SIZE_LINES = {b"%x\r\n" % size: size for size in range(1, 0x10)}
_ONE_DIGIT = {
    **ONE_DIGIT_SIZE_LINES,
    **{line.upper(): size for line, size in ONE_DIGIT_SIZE_LINES.items()},
}
_TWO_DIGITS = {b"%x\r\n" % size: size for size in range(0x10, 0x100)}
# The same without line ends, in lower case.
_PLAIN_SIZES = {b"%x" % size: size for size in range(1, 0x100)}
# After this many consecutive tiny chunks, more are expected and split together. The window starts
# at the first size and doubles while it succeeds. A failed attempt doubles the chunk count.
_SPLIT_AFTER_CHUNKS = 16
_FIRST_WINDOW_BYTES = 64
_MAX_WINDOW_BYTES = 16 * 1024
# Senders with unusual size lines (leading zeros, extensions) send large chunks. Many small ones are
# an attempt to cause load: such a chunk costs four times as much as a plain one.
_SMALL_CHUNK_BYTES = 64
_MAX_NONCANONICAL_CHUNKS = 500


class BodyError(BadRequest):
    """The framing of a body is invalid; nothing after it on this connection can be trusted."""


class BodyKind(Enum):
    """How the end of a body is determined."""

    NONE = auto()
    LENGTH = auto()
    CHUNKED = auto()
    UNTIL_CLOSE = auto()


# Reading a member of an enumeration is slow, and bodies are framed often.
_IS_CHUNKED = BodyKind.CHUNKED


class BodyFraming(NamedTuple):
    """How one message's body is delimited; `length` applies only to `LENGTH`."""

    kind: BodyKind
    length: int = 0

    @property
    def has_body(self) -> bool:
        """Return whether any byte follows the head."""
        return self.kind is not BodyKind.NONE and (
            self.length > 0 or self.kind is not BodyKind.LENGTH
        )

    def frame(self, payload: bytes) -> bytes:
        """Return payload in its wire format."""
        if self.kind is _IS_CHUNKED:
            return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""
        return payload

    def terminator(self) -> bytes:
        """Return the bytes that end the body on the wire."""
        return b"0\r\n\r\n" if self.kind is _IS_CHUNKED else b""


NO_BODY = BodyFraming(BodyKind.NONE)
CHUNKED = BodyFraming(BodyKind.CHUNKED)
UNTIL_CLOSE = BodyFraming(BodyKind.UNTIL_CLOSE)


class BodyReader(Protocol):
    """Splits received bytes into payload and the bytes after the body."""

    @property
    def is_between_chunks(self) -> bool:
        """Return whether the sender's framing allows a body of unknown length to end here."""
        ...

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return payload, and None while the body continues or the bytes after its end."""
        ...

    def end_of_stream(self) -> bool:
        """Return whether the body is complete if the connection ends here."""
        ...


class LengthReader:
    """A body of a known number of bytes."""

    __slots__ = ("_remaining",)

    is_between_chunks = False

    def __init__(self, length: int) -> None:
        self._remaining = length

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return payload up to the length, and the bytes after it."""
        remaining = self._remaining - len(data)
        if remaining > 0:
            self._remaining = remaining
            return data, None
        self._remaining = 0
        if remaining == 0:
            return data, b""
        return data[:remaining], data[remaining:]

    def end_of_stream(self) -> bool:
        """Return whether the whole length was received; otherwise the body is truncated."""
        return self._remaining == 0


class UntilCloseReader:
    """A response body that ends with its connection."""

    __slots__ = ()

    is_between_chunks = True

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return all data as payload."""
        return data, None

    def end_of_stream(self) -> bool:
        """Return True: the end of the connection is the end of the body."""
        return True


class ChunkedReader:
    """A chunked body, read strictly: CRLF only, trailers dropped."""

    _one_digit: ClassVar[dict[bytes, int]] = _ONE_DIGIT

    __slots__ = (
        "_chunk_left",
        "_in_trailers",
        "_noncanonical_chunks",
        "_partial",
        "_split_after_chunks",
        "_trailer_bytes",
    )

    def __init__(self) -> None:
        self._partial = b""
        self._noncanonical_chunks = 0
        self._split_after_chunks = _SPLIT_AFTER_CHUNKS
        # Payload bytes missing in this chunk, plus two for its CRLF. 0: a size line is next, or a
        # trailer line after the last chunk.
        self._chunk_left = 0
        self._in_trailers = False
        self._trailer_bytes = 0

    @property
    def is_between_chunks(self) -> bool:
        """Return whether the latest chunk was read completely, and nothing of the next one."""
        return not (self._chunk_left or self._partial or self._in_trailers)

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return the payload of all chunks in `data`, joined."""
        left = self._chunk_left - len(data)
        if left >= 2:  # noqa: PLR2004 - CR and LF are two
            # All of it belongs to one chunk that continues, as for most of a large body.
            self._chunk_left = left
            return data, None
        if self._partial:
            data, self._partial = self._partial + data, b""
        if not self._chunk_left and not self._in_trailers:
            match = _PLAIN_SIZE_LINE.match(data)
            if match is not None:
                start, end = match.end(), match.end() + int(match[1], 16)
                if start < end == len(data) - 2 and data[-2:] == b"\r\n":
                    # Exactly one chunk, as for most events of a watch.
                    return data[start:end], None
        return self._read_chunks(data)

    def end_of_stream(self) -> bool:
        """Return False: after the last chunk and its empty line `feed` reports the end."""
        return False

    def _read_chunks(self, data: bytes) -> tuple[bytes, bytes | None]:
        pieces: list[bytes] = []
        position = 0
        self._split_after_chunks = _SPLIT_AFTER_CHUNKS
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

        One loop without Python calls, because a body may consist of nothing else.
        """
        end, split_at = len(data), len(pieces) + self._split_after_chunks
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
            if len(pieces) == split_at:
                position = self._split_tiny_chunks(data, position, pieces)
                split_at = len(pieces) + self._split_after_chunks
        return position

    def _split_tiny_chunks(self, data: bytes, position: int, payloads: list[bytes]) -> int:
        """Add the payloads of the tiny chunks that begin here, and return the position after them.

        Splitting many together takes half the time of a loop over them. It stops at a chunk that is
        not tiny, at a size spelled differently, and at a payload that contains a line end.
        """
        window, end = _FIRST_WINDOW_BYTES, len(data)
        while position < end:
            # Size, payload, size, payload, and the rest after the last line end.
            lines = data[position : position + window].split(_CRLF)
            count = (len(lines) - 1) // 2
            sizes, found = lines[0 : 2 * count : 2], lines[1 : 2 * count : 2]
            stated, lengths = list(map(_PLAIN_SIZES.get, sizes)), list(map(len, found))
            if stated != lengths or not count:
                self._split_after_chunks *= 2
                count = next((at for at in range(count) if stated[at] != lengths[at]), 0)
            payloads += found[:count]
            position += sum(map(len, sizes[:count])) + sum(lengths[:count]) + 4 * count
            if count < len(sizes) or not count:
                break
            window = min(2 * window, _MAX_WINDOW_BYTES)
        return position

    def _read_chunk(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        payload_left = self._chunk_left - 2
        if payload_left > 0:
            piece = data[position : position + payload_left]
            self._payload_read(piece, pieces)
            self._chunk_left -= len(piece)
            return position + len(piece)
        # One or two bytes of the CRLF after the payload are missing.
        expected = b"\r" if self._chunk_left == 2 else b"\n"  # noqa: PLR2004 - CR and LF are two
        if data[position : position + 1] != expected:
            raise BodyError("malformed chunk in the body")
        self._chunk_left -= 1
        if not self._chunk_left:
            self._chunk_ended(pieces)
        return position + 1

    def _start_chunk(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        """Read a size line, and its chunk if the chunk is complete in `data`."""
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
        if size < _SMALL_CHUNK_BYTES and data[position:line_end] != b"%x\r\n" % size:
            self._count_noncanonical_chunk()
        self._chunk_started(size, pieces)
        end = line_end + size
        if data[end : end + 2] == b"\r\n":
            # Most chunks are complete. One step keeps the cost of a body of tiny chunks low.
            self._payload_read(data[line_end:end], pieces)
            self._chunk_ended(pieces)
            return end + 2
        self._chunk_left = size + 2
        return line_end

    def _count_noncanonical_chunk(self) -> None:
        self._noncanonical_chunks += 1
        if self._noncanonical_chunks > _MAX_NONCANONICAL_CHUNKS:
            raise BodyError("too many small chunks with non-canonical sizes in the body")

    def _chunk_started(self, size: int, pieces: list[bytes]) -> None:
        """Handle the size of the next chunk; `RawChunkReader` adds its size line."""

    def _payload_read(self, payload: bytes, pieces: list[bytes]) -> None:
        pieces.append(payload)

    def _chunk_ended(self, pieces: list[bytes]) -> None:
        """Handle the end of a chunk."""

    def _read_trailers(self, data: bytes, position: int) -> bytes | None:
        """Drop trailer lines; return the bytes after them, or None while they continue."""
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
