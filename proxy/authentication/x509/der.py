"""A DER reader that accepts what Go's cryptobyte accepts, and nothing more.

Every length is encoded in the fewest bytes, every tag in one byte. Data after the last element that
was read is ignored here: the calling code decides whether it matters.
"""

import re

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, OBJECT_IDENTIFIER = 0x01, 0x02, 0x03, 0x04, 0x06
UTF8_STRING, NUMERIC_STRING, PRINTABLE_STRING, T61_STRING = 0x0C, 0x12, 0x13, 0x14
IA5_STRING, UTC_TIME, GENERALIZED_TIME, BMP_STRING = 0x16, 0x17, 0x18, 0x1E
SEQUENCE, SET = 0x30, 0x31
CONTEXT, CONTEXT_CONSTRUCTED = 0x80, 0xA0
"""Added to a tag number: context-specific, primitive or constructed."""

NULL = b"\x05\x00"

_HIGH_TAG = 0x1F
_LONG_LENGTH = 0x80
_MAX_LENGTH_BYTES = 4
_MAX_PADDING_BITS = 7
# Components of an object identifier, each in the fewest bytes: Go parses them into 31 bits.
_COMPONENTS = re.compile(
    rb"(?:[\x00-\x7f]|[\x81-\xff][\x80-\xff]{0,2}[\x00-\x7f]"
    rb"|[\x81-\x87][\x80-\xff]{3}[\x00-\x7f])+"
)
_ANY_COMPONENTS = re.compile(rb"(?:[\x00-\x7f]|[\x81-\xff][\x80-\xff]*+[\x00-\x7f])++")


class DerError(ValueError):
    """Raised when the bytes are not the expected DER."""


class Budget:
    """The number of list items (names, extensions, constraints) that may still be parsed.

    Without it, 16 KB of the smallest items would take several milliseconds.
    """

    __slots__ = ("_left",)

    def __init__(self, items: int) -> None:
        self._left = items

    def take(self) -> None:
        """Take one item from the budget; raise DerError if none is left."""
        self._left -= 1
        if self._left < 0:
            raise DerError("too many names, extensions or constraints")


class DerReader:
    """Reads consecutive elements."""

    __slots__ = ("_data", "_end", "_position")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self._position = start
        self._end = len(data) if end is None else end

    @property
    def is_empty(self) -> bool:
        """Return whether everything has been read."""
        return self._position >= self._end

    @property
    def next_tag(self) -> int:
        """Return the tag of the next element, -1 if there is none."""
        return self._data[self._position] if self._position < self._end else -1

    @property
    def rest(self) -> bytes:
        """Return the bytes that have not been read."""
        return self._data[self._position : self._end]

    def read_any(self) -> tuple[int, "DerReader"]:
        """Return the tag and the contents of the next element."""
        tag, start, stop = self._advance()
        return tag, DerReader(self._data, start, stop)

    def read_value(self) -> tuple[int, bytes]:
        """Return the tag and the contents of the next element, as bytes."""
        tag, start, stop = self._advance()
        return tag, self._data[start:stop]

    def read(self, tag: int) -> "DerReader":
        """Return the contents of the next element, which must have this tag."""
        found, start, stop = self._advance()
        if found != tag:
            raise DerError("unexpected element type")
        return DerReader(self._data, start, stop)

    def read_bytes(self, tag: int) -> bytes:
        """Return the contents of the next element as bytes; it must have this tag."""
        found, start, stop = self._advance()
        if found != tag:
            raise DerError("unexpected element type")
        return self._data[start:stop]

    def read_element(self, tag: int) -> bytes:
        """Return the next element with its header; it must have this tag."""
        first = self._position
        found, _, stop = self._advance()
        if found != tag:
            raise DerError("unexpected element type")
        return self._data[first:stop]

    def read_any_element(self) -> bytes:
        """Return the next element with its header, whatever its tag."""
        first = self._position
        _, _, stop = self._advance()
        return self._data[first:stop]

    def read_optional(self, tag: int) -> "DerReader | None":
        """Return the contents of the next element if it has this tag, else None."""
        return self.read(tag) if self.next_tag == tag else None

    def read_boolean(self) -> bool:
        """Return a BOOLEAN, which has only two encodings in DER."""
        contents = self.read_bytes(BOOLEAN)
        if contents not in (b"\x00", b"\xff"):
            raise DerError("BOOLEAN not in DER")
        return contents == b"\xff"

    def read_integer(self, tag: int = INTEGER) -> int:
        """Return an INTEGER of any size, in the fewest bytes."""
        return parse_integer(self.read_bytes(tag))

    def read_object_identifier(self) -> bytes:
        """Return the contents of an object identifier that Go can parse."""
        contents = self.read_bytes(OBJECT_IDENTIFIER)
        check_object_identifier(contents)
        return contents

    def read_aligned_bits(self) -> tuple[bytes, bool]:
        """Return a BIT STRING without its padding, and whether it had none.

        As in Go, padding shifts the bits to the right: the bytes then differ from the element's.
        """
        bits, padding = self.read_bit_string()
        if padding:
            bits = (int.from_bytes(bits) >> padding).to_bytes(len(bits))
        return bits, not padding

    def read_bit_string(self) -> tuple[bytes, int]:
        """Return the bytes of a BIT STRING, and the number of padding bits in the last one."""
        contents = self.read_bytes(BIT_STRING)
        if not contents:
            raise DerError("empty BIT STRING")
        padding, bits = contents[0], contents[1:]
        if padding > _MAX_PADDING_BITS or (padding and not bits):
            raise DerError("BIT STRING with invalid padding")
        if bits and bits[-1] & ((1 << padding) - 1):
            raise DerError("BIT STRING with nonzero padding")
        return bits, padding

    def _advance(self) -> tuple[int, int, int]:
        """Skip the next element; return its tag, and the start and end of its contents."""
        data, at, end = self._data, self._position, self._end
        if end - at < 2:  # noqa: PLR2004 - a tag and a length
            raise DerError("truncated element")
        tag, length = data[at], data[at + 1]
        start = at + 2
        if tag & _HIGH_TAG == _HIGH_TAG:
            raise DerError("tag longer than one byte")
        if length & _LONG_LENGTH:
            count = length & 0x7F
            if not 0 < count <= _MAX_LENGTH_BYTES or end - start < count:
                raise DerError("invalid length")
            length = int.from_bytes(data[start : start + count])
            if length < _LONG_LENGTH or not length >> ((count - 1) * 8):
                raise DerError("length not in the shortest form")
            start += count
        stop = start + length
        if stop > end:
            raise DerError("truncated element")
        self._position = stop
        return tag, start, stop


def parse_integer(contents: bytes) -> int:
    """Return the value of an INTEGER's contents."""
    if not contents:
        raise DerError("empty INTEGER")
    if len(contents) > 1 and (
        (contents[0] == 0 and not contents[1] & 0x80)
        or (contents[0] == 0xFF and contents[1] & 0x80)  # noqa: PLR2004 - all ones
    ):
        raise DerError("INTEGER not in the shortest form")
    return int.from_bytes(contents, signed=True)


def check_object_identifier(contents: bytes) -> None:
    """Raise DerError unless Go can parse it: components have at most 31 bits."""
    if not _COMPONENTS.fullmatch(contents):
        raise DerError("object identifier that Go does not parse")


def check_policy_identifier(contents: bytes) -> None:
    """Raise DerError unless Go can parse it as a policy: components may have any size there."""
    if not _ANY_COMPONENTS.fullmatch(contents):
        raise DerError("policy that Go does not parse")
