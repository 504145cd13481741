"""Chunks that are passed on in their frames: the frame is checked, and not made anew.

A large answer or an event of a watch mostly comes in the very frame that we would give it. To take
it out of that and to put it into an equal one again would copy all of it twice.
"""

import re
from typing import ClassVar

from proxy.wire.http1.body import ONE_DIGIT_SIZE_LINES, BodyError, ChunkedReader

# As we spell sizes: no zero before them, small letters, nothing after them.
_OWN_SIZE_LINE = re.compile(rb"([1-9a-f][0-9a-f]{0,7})\r\n")
_CRLF = b"\r\n"
_NEWLINE = 0x0A


class RawChunkReader(ChunkedReader):
    """A chunked body, read as strictly, whose chunks keep their frames.

    What `feed` returns is what a reader of chunks may be sent, one piece after the other, and is
    what `BodyFraming.frame` makes of each chunk, byte for byte: no extension, trailer or odd
    spelling is in it. The last chunk is not: it is sent when the body has ended.
    """

    _one_digit: ClassVar[dict[bytes, int]] = ONE_DIGIT_SIZE_LINES

    __slots__ = ("last_byte", "payload_bytes")

    def __init__(self) -> None:
        super().__init__()
        self.payload_bytes = 0
        """How much payload was returned so far, not counting its frames."""
        self.last_byte = _NEWLINE
        """The last of it; before the first it is as if a line had ended."""

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return all chunks in `data`, or what is there of them."""
        size = len(data)
        left = self._chunk_left - size
        if left >= 2:  # noqa: PLR2004 - CR and LF are two
            # All of it is of one chunk that is still going on, as most of a large body is.
            self._chunk_left = left
            self.payload_bytes += size
            self.last_byte = data[-1]
            return data, None
        if self._partial:
            data, self._partial = self._partial + data, b""
            size = len(data)
        if not self._chunk_left and not self._in_trailers:
            match = _OWN_SIZE_LINE.match(data)
            if match is not None:
                start, end = match.end(), size - 2
                if end - start == int(match[1], 16) and data.endswith(_CRLF):
                    # One chunk and nothing else, as most events of a watch come.
                    self.payload_bytes += end - start
                    self.last_byte = data[end - 1]
                    return data, None
        return self._read_chunks(data)

    def _read_chunks(self, data: bytes) -> tuple[bytes, bytes | None]:
        counted = self.payload_bytes
        try:
            return super()._read_chunks(data)
        except BodyError:
            self.payload_bytes = counted  # Nothing of this piece is passed on.
            raise

    def _read_tiny_chunks(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        payloads: list[bytes] = []
        end = super()._read_tiny_chunks(data, position, payloads)
        if payloads:
            pieces.append(data[position:end])
            self.payload_bytes += sum(map(len, payloads))
            self.last_byte = data[end - 3]
        return end

    def _start_chunk(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        match = _OWN_SIZE_LINE.match(data, position)
        if match is not None:
            start = match.end()
            end = start + int(match[1], 16)
            after = end + 2
            if data[end:after] == _CRLF:
                pieces.append(data[position:after])
                self.payload_bytes += end - start
                self.last_byte = data[end - 1]
                return after
        return super()._start_chunk(data, position, pieces)

    def _open_chunk(self, size: int, pieces: list[bytes]) -> None:
        pieces.append(b"%x\r\n" % size)

    def _take_payload(self, payload: bytes, pieces: list[bytes]) -> None:
        pieces.append(payload)
        self.payload_bytes += len(payload)
        self.last_byte = payload[-1]

    def _close_chunk(self, pieces: list[bytes]) -> None:
        pieces.append(_CRLF)
