"""Chunks forwarded in their original frames: the frame is checked and not rewritten.

A large response or a watch event mostly arrives in exactly the frame that the proxy would write.
Removing that frame and adding an equal one would copy the data twice.
"""

import re
from typing import ClassVar

from proxy.wire.http1.body import (
    CHUNKED,
    ONE_DIGIT_SIZE_LINES,
    BodyError,
    BodyKind,
    ChunkedReader,
)

# The canonical size line: no leading zero, lower case, no extension.
_CANONICAL_SIZE_LINE = re.compile(rb"([1-9a-f][0-9a-f]{0,7})\r\n")
_CRLF = b"\r\n"
_NEWLINE = 0x0A


class RawChunkReader(ChunkedReader):
    """A chunked body, read as strictly as by `ChunkedReader`, whose chunks keep their frames.

    The concatenated results of `feed` can be sent to a client that reads chunks. They equal the
    output of `BodyFraming.frame` for each chunk, byte for byte, without extensions, trailers or
    unusual spellings. The last chunk is not included: it is sent when the body has ended.

    The reader is also the framing of the response to the client: it counts the payload in frames.
    """

    kind: ClassVar[BodyKind] = BodyKind.CHUNKED
    _one_digit: ClassVar[dict[bytes, int]] = ONE_DIGIT_SIZE_LINES

    __slots__ = ("last_byte", "payload_bytes")

    def __init__(self) -> None:
        super().__init__()
        self.payload_bytes = 0
        """Payload bytes returned so far, without their frames."""
        self.last_byte = _NEWLINE
        """The last payload byte; a newline before the first one."""

    def frame(self, chunks: bytes) -> bytes:
        """Return what `feed` returned: it is in its wire format already."""
        return chunks

    def terminator(self) -> bytes:
        """Return the bytes that end the body on the wire."""
        return CHUNKED.terminator()

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return all chunks in `data`, including partial ones."""
        size = len(data)
        left = self._chunk_left - size
        if left >= 2:  # noqa: PLR2004 - CR and LF are two
            # All of it belongs to one chunk that continues, as for most of a large body.
            self._chunk_left = left
            self.payload_bytes += size
            self.last_byte = data[-1]
            return data, None
        if self._partial:
            data, self._partial = self._partial + data, b""
            size = len(data)
        if not self._chunk_left and not self._in_trailers:
            match = _CANONICAL_SIZE_LINE.match(data)
            if match is not None:
                start, end = match.end(), size - 2
                if end - start == int(match[1], 16) and data.endswith(_CRLF):
                    # Exactly one chunk, as for most events of a watch.
                    self.payload_bytes += end - start
                    self.last_byte = data[end - 1]
                    return data, None
        return self._read_chunks(data)

    def _read_chunks(self, data: bytes) -> tuple[bytes, bytes | None]:
        payload_bytes_before = self.payload_bytes
        try:
            return super()._read_chunks(data)
        except BodyError:
            self.payload_bytes = payload_bytes_before  # Nothing of this data is forwarded.
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
        match = _CANONICAL_SIZE_LINE.match(data, position)
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

    def _chunk_started(self, size: int, pieces: list[bytes]) -> None:
        pieces.append(b"%x\r\n" % size)

    def _payload_read(self, payload: bytes, pieces: list[bytes]) -> None:
        pieces.append(payload)
        self.payload_bytes += len(payload)
        self.last_byte = payload[-1]

    def _chunk_ended(self, pieces: list[bytes]) -> None:
        pieces.append(_CRLF)
