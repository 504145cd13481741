"""Label selectors, read with the rules of Kubernetes' `labels` package.

Only whether a selector parses and what it then requires is needed: the server's explanations of
bad ones reach nobody here.
"""

import re
from typing import NamedTuple

from proxy.core.identity import is_subdomain

_TOKEN = re.compile(r"[ \t\r\n]*+(==|!=|[=!(),<>]|[^\0=!(),<> \t\r\n]++)\0?")
_END = ""
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", _END})
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LONGEST_NAME = 63
_DIGITS = re.compile(r"[0-9]+")
_LARGEST_INTEGER = 2**63 - 1
_EXACT_OPERATORS = {"=": "=", "==": "==", "!=": "!=", "<": "lt", ">": "gt"}


class LabelRequirement(NamedTuple):
    """One condition. Operators: `in notin = == != gt lt exists !`; values are a sorted set."""

    key: str
    operator: str
    values: tuple[str, ...]


class _Unparsable(Exception):
    """The selector breaks a rule of the grammar."""


def parse_label_selector(selector: str) -> tuple[LabelRequirement, ...] | None:
    """Return the requirements sorted by key, or None when the selector does not parse."""
    try:
        requirements = _Parser(selector).requirements()
    except _Unparsable:
        return None
    return tuple(sorted(requirements, key=lambda requirement: requirement.key))


class _Parser:
    """One pass over the tokens. `in` and `notin` are words wherever a word may stand.

    Each token is read when it is needed, so what follows the first fault costs nothing.
    """

    def __init__(self, selector: str) -> None:
        self._selector = selector
        self._position = 0
        self._token = _END
        self._read_token()

    def requirements(self) -> list[LabelRequirement]:
        """Return every requirement in the order of the text."""
        found: list[LabelRequirement] = []
        if self._next() == _END:
            return found
        while True:
            found.append(self._requirement())
            separator = self._take()
            if separator == _END:
                return found
            # A trailing comma is refused by the next requirement, which finds no key.
            if separator != ",":
                raise _Unparsable

    def _read_token(self) -> None:
        """Read a word or a symbol; an empty one is the end.

        A NUL ends the text where a token could begin and otherwise ends the token before it, as in
        the original, which reads it as the end of its buffer.
        """
        match = _TOKEN.match(self._selector, self._position)
        if match is None:
            self._token, self._position = _END, len(self._selector)
        else:
            self._token, self._position = match[1], match.end()

    def _next(self) -> str:
        return self._token

    def _take(self) -> str:
        token = self._token
        self._read_token()
        return token

    def _take_word(self) -> str:
        token = self._take()
        if token in _SYMBOLS:
            raise _Unparsable
        return token

    def _requirement(self) -> LabelRequirement:
        is_negated = self._next() == "!"
        if is_negated:
            self._take()
        key = self._take_word()
        if not _is_label_key(key):
            raise _Unparsable
        if is_negated:
            return LabelRequirement(key, "!", ())
        if self._next() in {_END, ","}:
            return LabelRequirement(key, "exists", ())
        return self._comparison(key)

    def _comparison(self, key: str) -> LabelRequirement:
        token = self._take()
        if token in {"in", "notin"}:
            operator, values = token, self._set()
        elif token in _EXACT_OPERATORS:
            operator = _EXACT_OPERATORS[token]
            values = {"" if self._next() in {_END, ","} else self._take_word()}
        else:
            raise _Unparsable
        if not all(map(_is_label_value, values)):
            raise _Unparsable
        if operator in {"lt", "gt"} and not all(map(_is_integer, values)):
            raise _Unparsable
        return LabelRequirement(key, operator, tuple(sorted(values)))

    def _set(self) -> set[str]:
        """Return the values between parentheses; nothing between two commas is the empty value."""
        if self._take() != "(":
            raise _Unparsable
        values: set[str] = set()
        while True:
            if self._next() in {",", ")"}:
                values.add("")
            else:
                values.add(self._take_word())
            separator = self._take()
            if separator == ")":
                return values
            if separator != ",":
                raise _Unparsable


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    # A second slash is left in the prefix, which no subdomain contains.
    if slash and not is_subdomain(prefix):
        return False
    return name != "" and _is_label_value(name)


def _is_label_value(value: str) -> bool:
    if not value:
        return True
    return len(value) <= _LONGEST_NAME and _NAME.fullmatch(value) is not None


def _is_integer(value: str) -> bool:
    return _DIGITS.fullmatch(value) is not None and int(value) <= _LARGEST_INTEGER
