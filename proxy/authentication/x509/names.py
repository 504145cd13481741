"""Names of certificates, with the types of text that Go reads."""

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
"""An object identifier, as the contents of its DER, and a value."""

COMMON_NAME, ORGANIZATION = b"\x55\x04\x03", b"\x55\x04\x0a"

# Not all of them belong there; Go takes `*` and `&` as well.
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
            attributes.append((kind, text(*attribute.read_value())))
    return tuple(attributes)


def text(tag: int, value: bytes) -> str:
    """Return a text of one of the types that Go reads; DerError for any other."""
    if tag == UTF8_STRING:
        return _decoded(value, "utf-8")
    if tag == PRINTABLE_STRING:
        return _text_of(value, _PRINTABLE)
    if tag == IA5_STRING:
        return _decoded(value, "ascii")
    if tag == NUMERIC_STRING:
        return _text_of(value, _NUMERIC)
    if tag == T61_STRING:
        return value.decode("latin-1")  # as Go does, and most others
    if tag == BMP_STRING:
        return _basic_plane(value)
    raise DerError("a type of text that Go does not read")


def _decoded(value: bytes, encoding: str) -> str:
    try:
        return value.decode(encoding)
    except UnicodeDecodeError as error:
        raise DerError("a text that is not in its encoding") from error


def _text_of(value: bytes, known: frozenset[int]) -> str:
    if not known.issuperset(value):
        raise DerError("a text with characters its type does not have")
    return value.decode("ascii")


def _basic_plane(value: bytes) -> str:
    """Return a text of two bytes per character: without surrogates and noncharacters."""
    if len(value) % 2:
        raise DerError("half a character")
    decoded = _decoded(value.removesuffix(b"\x00\x00"), "utf-16-be")
    if any("\ufdd0" <= one <= "\ufdef" or one > "\ufffd" for one in decoded):
        raise DerError("a character that is none")
    return decoded
