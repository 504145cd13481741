"""Values of string and bytes literals."""

import re

from proxy.core.cel.errors import CelCompileError

_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-3][0-7]{2})|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})"
    r"|U(?P<long>[0-9a-fA-F]{8})|(?P<simple>.))",
    re.DOTALL,
)
_HIGHEST_CODE_POINT = 0x10FFFF
_TRIPLE_QUOTED = 6
_SURROGATES = range(0xD800, 0xE000)


def string_value(token: str, offset: int) -> str:
    """Return the text that a string literal stands for."""
    body, raw = _body(token)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(lambda found: _character(found, offset), body)


def bytes_value(token: str, offset: int) -> bytes:
    """Return the bytes that a literal with the prefix `b` stands for."""
    body, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    position = 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[position : found.start()].encode("utf-8", "surrogatepass"))
        parts.append(_byte(found, offset))
        position = found.end()
    parts.append(body[position:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)


def _body(token: str) -> tuple[str, bool]:
    text = token.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= _TRIPLE_QUOTED and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw


def _character(found: re.Match[str], offset: int) -> str:
    if found["simple"] is not None:
        return _SIMPLE[found["simple"]]
    digits = found["hex"] or found["short"] or found["long"]
    number = int(digits, 16) if digits else int(found["octal"], 8)
    if number > _HIGHEST_CODE_POINT or number in _SURROGATES:
        raise CelCompileError("invalid unicode code point", offset)
    return chr(number)


def _byte(found: re.Match[str], offset: int) -> bytes:
    if found["simple"] is not None:
        return _SIMPLE[found["simple"]].encode()
    if found["octal"] is not None:
        return bytes([int(found["octal"], 8)])
    if found["hex"] is not None:
        return bytes([int(found["hex"], 16)])
    raise CelCompileError("unable to unescape string", offset)
