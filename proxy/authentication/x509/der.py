"""A reader of DER that accepts what Go's cryptobyte accepts, and nothing more.

Every length is written in the fewest bytes, every tag in one byte. Content that follows the last
element that was asked for is left alone: the caller decides whether it matters.
"""

import re

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, OBJECT_IDENTIFIER = 0x01, 0x02, 0x03, 0x04, 0x06
UTF8_STRING, NUMERIC_STRING, PRINTABLE_STRING, T61_STRING = 0x0C, 0x12, 0x13, 0x14
IA5_STRING, UTC_TIME, GENERALIZED_TIME, BMP_STRING = 0x16, 0x17, 0x18, 0x1E
SEQUENCE, SET = 0x30, 0x31
CONTEXT, CONTEXT_CONSTRUCTED = 0x80, 0xA0
"""To be added to the number of a tag: context-specific, primitive or constructed."""

NULL = b"\x05\x00"

_HIGH_TAG = 0x1F
_LONG_LENGTH = 0x80
_MOST_LENGTH_BYTES = 4
_MOST_PADDING_BITS = 7
# Components of an object identifier, each in the fewest bytes: Go reads them into 31 bits.
_COMPONENTS = re.compile(
    rb"(?:[\x00-\x7f]|[\x81-\xff][\x80-\xff]{0,2}[\x00-\x7f]"
    rb"|[\x81-\x87][\x80-\xff]{3}[\x00-\x7f])+"
)
_ANY_COMPONENTS = re.compile(rb"(?:[\x00-\x7f]|[\x81-\xff][\x80-\xff]*+[\x00-\x7f])++")


class DerError(ValueError):
    """The bytes are not the DER that is expected."""


class Budget:
    """How many list items of certificates may still be read: names, extensions, constraints.

    Without one, 16 KB of the smallest items would take several milliseconds.
    """

    __slots__ = ("_left",)

    def __init__(self, items: int) -> None:
        self._left = items

    def take(self) -> None:
        """Take one item from the budget; DerError if there is none left."""
        self._left -= 1
        if self._left < 0:
            raise DerError("too many names, extensions or constraints")


class DerReader:
    """Reads elements one after the other."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self._at = start
        self._end = len(data) if end is None else end

    @property
    def is_empty(self) -> bool:
        """Return whether everything has been read."""
        return self._at >= self._end

    @property
    def next_tag(self) -> int:
        """Return the tag of the next element, -1 if there is none."""
        return self._data[self._at] if self._at < self._end else -1

    @property
    def rest(self) -> bytes:
        """Return the bytes that have not been read."""
        return self._data[self._at : self._end]

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
            raise DerError("an element of another type than expected")
        return DerReader(self._data, start, stop)

    def read_bytes(self, tag: int) -> bytes:
        """Return the contents of the next element as bytes; it must have this tag."""
        found, start, stop = self._advance()
        if found != tag:
            raise DerError("an element of another type than expected")
        return self._data[start:stop]

    def read_element(self, tag: int) -> bytes:
        """Return the next element with its header; it must have this tag."""
        first = self._at
        found, _, stop = self._advance()
        if found != tag:
            raise DerError("an element of another type than expected")
        return self._data[first:stop]

    def read_any_element(self) -> bytes:
        """Return the next element with its header, whatever its tag."""
        first = self._at
        _, _, stop = self._advance()
        return self._data[first:stop]

    def read_optional(self, tag: int) -> "DerReader | None":
        """Return the contents of the next element if it has this tag, else None."""
        return self.read(tag) if self.next_tag == tag else None

    def read_boolean(self) -> bool:
        """Return a BOOLEAN, which DER writes in two ways only."""
        contents = self.read_bytes(BOOLEAN)
        if contents not in (b"\x00", b"\xff"):
            raise DerError("not a BOOLEAN of DER")
        return contents == b"\xff"

    def read_integer(self, tag: int = INTEGER) -> int:
        """Return an INTEGER of any size, in the fewest bytes."""
        return integer(self.read_bytes(tag))

    def read_object_identifier(self) -> bytes:
        """Return an object identifier as its contents, which Go could take apart."""
        contents = self.read_bytes(OBJECT_IDENTIFIER)
        check_object_identifier(contents)
        return contents

    def read_aligned_bits(self) -> tuple[bytes, bool]:
        """Return a BIT STRING without its padding, and whether it had none.

        As in Go, the bits move to the right: with padding the bytes are not those of the element.
        """
        bits, padding = self.read_bit_string()
        if padding:
            bits = (int.from_bytes(bits) >> padding).to_bytes(len(bits))
        return bits, not padding

    def read_bit_string(self) -> tuple[bytes, int]:
        """Return the bytes of a BIT STRING and how many bits of the last are padding."""
        contents = self.read_bytes(BIT_STRING)
        if not contents:
            raise DerError("an empty BIT STRING")
        padding, bits = contents[0], contents[1:]
        if padding > _MOST_PADDING_BITS or (padding and not bits):
            raise DerError("a BIT STRING with bad padding")
        if bits and bits[-1] & ((1 << padding) - 1):
            raise DerError("a BIT STRING with padding that is not zero")
        return bits, padding

    def _advance(self) -> tuple[int, int, int]:
        """Step over the next element; return its tag and where its contents begin and end."""
        data, at, end = self._data, self._at, self._end
        if end - at < 2:  # noqa: PLR2004 - a tag and a length
            raise DerError("an element is cut short")
        tag, length = data[at], data[at + 1]
        start = at + 2
        if tag & _HIGH_TAG == _HIGH_TAG:
            raise DerError("a tag of more than one byte")
        if length & _LONG_LENGTH:
            count = length & 0x7F
            if not 0 < count <= _MOST_LENGTH_BYTES or end - start < count:
                raise DerError("a length that DER does not know")
            length = int.from_bytes(data[start : start + count])
            if length < _LONG_LENGTH or not length >> ((count - 1) * 8):
                raise DerError("a length that is longer than needed")
            start += count
        stop = start + length
        if stop > end:
            raise DerError("an element is cut short")
        self._at = stop
        return tag, start, stop


def integer(contents: bytes) -> int:
    """Return the value of an INTEGER's contents."""
    if not contents:
        raise DerError("an empty INTEGER")
    if len(contents) > 1 and (
        (contents[0] == 0 and not contents[1] & 0x80)
        or (contents[0] == 0xFF and contents[1] & 0x80)  # noqa: PLR2004 - all ones
    ):
        raise DerError("an INTEGER that is longer than needed")
    return int.from_bytes(contents, signed=True)


def check_object_identifier(contents: bytes) -> None:
    """Raise DerError for what Go cannot take apart: components of at most 31 bits."""
    if not _COMPONENTS.fullmatch(contents):
        raise DerError("an object identifier that Go does not read")


def check_policy_identifier(contents: bytes) -> None:
    """Raise DerError for what Go cannot read as a policy: components may have any size there."""
    if not _ANY_COMPONENTS.fullmatch(contents):
        raise DerError("a policy that Go does not read")
