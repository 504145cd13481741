"""Text in quotes as Go writes it, which is neither `repr` nor JSON."""

import re

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


def _character_class() -> str:
    ranges = (entry.partition("-") for entry in PRINTABLE_RANGES.split())
    return "".join(
        f"{chr(int(first, 16))}-{chr(int(last or first, 16))}" for first, _, last in ranges
    )


_ESCAPED = re.compile(f'["\\\\]|[^ -~{_character_class()}]')


def go_quote(text: str) -> str:
    """Return a text as `%q` prints it; bytes that are not UTF-8 come as surrogate escapes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if _FIRST_ESCAPED_BYTE <= code <= _LAST_ESCAPED_BYTE:
        return f"\\x{code & 0xFF:02x}"
    if code <= _LAST_CONTROL or code == _DELETE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_SHORT else f"\\U{code:08x}"
