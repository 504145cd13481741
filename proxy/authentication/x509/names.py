"""Distinguished names, with the string types that Go parses."""

from proxy.authentication.x509.der import (
    BMP_STRING,
    IA5_STRING,
    NUMERIC_STRING,
    PRINTABLE_STRING,
    SEQUENCE,
    SET,
    T61_STRING,
    UTF8_STRING,
    Budget,
    DerError,
    DerReader,
)

Attribute = tuple[bytes, str]
"""The DER contents of an object identifier, and a value."""

COMMON_NAME, ORGANIZATION = b"\x55\x04\x03", b"\x55\x04\x0a"

# More than the standard allows: Go accepts `*` and `&` as well.
_PRINTABLE = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'()+,-./ :=?*&"
)
_NUMERIC = frozenset(b"0123456789 ")


def read_name(name: bytes, budget: Budget) -> tuple[Attribute, ...]:
    """Return the attributes of a name, given as a whole element, in their order."""
    attributes: list[Attribute] = []
    parts = DerReader(name).read(SEQUENCE)
    while not parts.is_empty:
        part = parts.read(SET)
        if part.is_empty:
            budget.take()
        while not part.is_empty:
            budget.take()
            attribute = part.read(SEQUENCE)
            kind = attribute.read_object_identifier()
            attributes.append((kind, decode_text(*attribute.read_value())))
    return tuple(attributes)


def decode_text(tag: int, value: bytes) -> str:
    """Return the text of a string type that Go parses; raise DerError for any other."""
    if tag == UTF8_STRING:
        return _decode(value, "utf-8")
    if tag == PRINTABLE_STRING:
        return _decode_restricted(value, _PRINTABLE)
    if tag == IA5_STRING:
        return _decode(value, "ascii")
    if tag == NUMERIC_STRING:
        return _decode_restricted(value, _NUMERIC)
    if tag == T61_STRING:
        return value.decode("latin-1")  # as Go and most other parsers do
    if tag == BMP_STRING:
        return _decode_bmp(value)
    raise DerError("string type that Go does not parse")


def _decode(value: bytes, encoding: str) -> str:
    try:
        return value.decode(encoding)
    except UnicodeDecodeError as error:
        raise DerError("text not in its encoding") from error


def _decode_restricted(value: bytes, known: frozenset[int]) -> str:
    if not known.issuperset(value):
        raise DerError("characters not allowed by the string type")
    return value.decode("ascii")


def _decode_bmp(value: bytes) -> str:
    """Return a text of two bytes per character; reject surrogates and noncharacters."""
    if len(value) % 2:
        raise DerError("incomplete character")
    decoded = _decode(value.removesuffix(b"\x00\x00"), "utf-16-be")
    if any("\ufdd0" <= char <= "\ufdef" or char > "\ufffd" for char in decoded):
        raise DerError("noncharacter")
    return decoded
