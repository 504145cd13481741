"""Label selectors, read with the rules of Kubernetes' `labels` package.

Only whether a selector parses and what it then requires is needed: the server's explanations of
bad ones reach nobody here.
"""

import re
from typing import NamedTuple

from proxy.core.userinfo import is_subdomain

_OPERATOR = re.compile("!=|==|=")
# All of these are possessive: what was read is not read again, and takes no memory meanwhile.
_TERM = re.compile(r"(?:[^\\,]++|\\.?)*+", re.DOTALL)
_ESCAPED_VALUE = re.compile(r"(?:[^\\=]++|\\[\\,=])*+")
# Stands for a backslash while other escapes are read; no decoded text has it in it.
_BACKSLASH = "\ud800"


class FieldRequirement(NamedTuple):
    """One term. The operator is `=` or `!=`; `==` was another spelling of the first."""

    field: str
    operator: str
    value: str


def parse_field_selector(selector: str) -> tuple[FieldRequirement, ...] | None:
    """Return the terms in their sorted order, or None when the selector does not parse.

    Terms are not trimmed, and a term that names nothing (`=`) asks for nothing.
    """
    requirements = []
    for term in sorted(_terms(selector)):
        if not term:
            continue
        requirement = _requirement(term)
        if requirement is None:
            return None
        if requirement.field or requirement.value:
            requirements.append(requirement)
    return tuple(requirements)


def exact_match(requirements: tuple[FieldRequirement, ...], field: str) -> str | None:
    """Return the value that the first term about a field demands, or None."""
    for requirement in requirements:
        if requirement.field == field and requirement.operator == "=":
            return requirement.value
    return None


def _terms(selector: str) -> list[str]:
    if "\\" not in selector:
        return selector.split(",")
    terms = []
    position = 0
    while position <= len(selector):
        term = _TERM.match(selector, position)
        assert term is not None  # it may be empty
        terms.append(term[0])
        position = term.end() + 1  # past the comma
    return terms


def _requirement(term: str) -> FieldRequirement | None:
    operator = _OPERATOR.search(term)
    if operator is None:
        return None
    value = _unescaped(term[operator.end() :])
    if value is None:
        return None
    return FieldRequirement(term[: operator.start()], operator[0].replace("==", "="), value)


def _unescaped(value: str) -> str | None:
    if "\\" not in value:
        return None if "=" in value else value
    if _ESCAPED_VALUE.fullmatch(value) is None:
        return None
    value = value.replace("\\\\", _BACKSLASH).replace("\\,", ",").replace("\\=", "=")
    return value.replace(_BACKSLASH, "\\")


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
