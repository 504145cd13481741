"""Tokens of an expression.

The text is read once from left to right by one pattern without backtracking over tokens.
"""

import re
from typing import NamedTuple

from proxy.core.cel.errors import CelCompileError

_ESCAPE = (
    r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
)
_PLAIN = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\"]|"(?!""))*"""',
        rf"'''(?:{_ESCAPE}|[^\\']|'(?!''))*'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_RAW = "|".join(
    (
        r'[rR]"""(?:[^"]|"(?!""))*"""',
        r"[rR]'''(?:[^']|'(?!''))*'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<space>[\t \r\n\f]+|//[^\n]*)",
            rf"(?P<bytes>[bB](?:{_RAW}|{_PLAIN}))",
            rf"(?P<string>{_RAW}|{_PLAIN})",
            r"(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
            r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)",
            r"(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])",
            r"(?P<int>0x[0-9a-fA-F]+|[0-9]+)",
            r"(?P<ident>[A-Za-z_][A-Za-z0-9_]*)",
            r"(?P<escaped>`[A-Za-z0-9_.\-/ ]+`)",
            r"(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])",
        )
    )
)
_KEYWORDS = {"in": "operator", "true": "keyword", "false": "keyword", "null": "keyword"}


class Token(NamedTuple):
    """A piece of the text: its kind, its characters and where it starts."""

    kind: str
    text: str
    offset: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text, with an end token; raises CelCompileError."""
    tokens: list[Token] = []
    position = 0
    match = _TOKEN.match
    while position < len(text):
        found = match(text, position)
        if found is None:
            raise CelCompileError(
                f"Syntax error: token recognition error at: {text[position]!r}", position
            )
        kind = found.lastgroup or ""
        piece = found.group()
        if kind != "space":
            tokens.append(Token(_KEYWORDS.get(piece, kind), piece, position))
        position = found.end()
    tokens.append(Token("end", "<EOF>", len(text)))
    return tokens
