"""Text in quotes as Go writes it, which is neither `repr` nor JSON."""

from proxy.core.cut_text import cut_text
from proxy.core.go_printable import PRINTABLE_RANGES

_SHORT_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
_FIRST_ESCAPED_BYTE = 0xDC80
_LAST_ESCAPED_BYTE = 0xDCFF
_LAST_CONTROL = 0x1F
_DELETE = 0x7F
_LAST_SHORT = 0xFFFF


def _plain_characters() -> bytes:
    """Return for each code point whether it stands for itself in quotes."""
    plain = bytearray(0x110000)
    for entry in ("20-7e", *PRINTABLE_RANGES.split()):
        first, _, last = entry.partition("-")
        start, end = int(first, 16), int(last or first, 16) + 1
        plain[start:end] = b"\1" * (end - start)
    plain[ord('"')] = plain[ord("\\")] = 0
    return bytes(plain)


# A megabyte, because a pattern of so many ranges takes two microseconds for each character.
_PLAIN = _plain_characters()


def go_quote(text: str) -> str:
    """Return a text as `%q` prints it; bytes that are not UTF-8 come as surrogate escapes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    # Each character once, however often it is there: an escape takes half a microsecond.
    escapes = {ord(one): _escape(one) for one in set(text) if not _PLAIN[ord(one)]}
    return f'"{text.translate(escapes)}"'


def shown_quote(text: str) -> str:
    """Return a text in quotes for a message, cut if it is long: each escape costs a step."""
    return go_quote(cut_text(text))


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if _FIRST_ESCAPED_BYTE <= code <= _LAST_ESCAPED_BYTE:
        return f"\\x{code & 0xFF:02x}"
    if code <= _LAST_CONTROL or code == _DELETE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_SHORT else f"\\U{code:08x}"
