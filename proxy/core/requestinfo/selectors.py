"""Field and label selectors, parsed by the rules of Kubernetes' `fields` and `labels` packages.

The result is the list of requirements, or None for a selector that does not parse. The API
server's error texts for such selectors are not needed, because no client receives them from here.
"""

import re
from typing import NamedTuple

from proxy.core.userinfo import is_subdomain

_OPERATOR = re.compile("!=|==|=")
# These patterns are possessive: they never backtrack and keep no state for it.
_TERM = re.compile(r"(?:[^\\,]++|\\.?)*+", re.DOTALL)
_ESCAPED_VALUE = re.compile(r"(?:[^\\=]++|\\[\\,=])*+")
# Stands for a backslash while other escapes are decoded; no decoded text contains it.
_BACKSLASH = "\ud800"


class FieldRequirement(NamedTuple):
    """One term. The operator is `=` or `!=`; `==` is normalized to `=`."""

    field: str
    operator: str
    value: str


def parse_field_selector(selector: str) -> tuple[FieldRequirement, ...] | None:
    """Parse a field selector into sorted terms, or return None if it does not parse.

    Terms are not trimmed. A term without field and value (`=`) requires nothing.
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
    """Return the value that the first `=` term for a field requires, or None."""
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
        assert term is not None  # the pattern matches the empty string
        terms.append(term[0])
        position = term.end() + 1  # past the comma
    return terms


def _requirement(term: str) -> FieldRequirement | None:
    operator = _OPERATOR.search(term)
    if operator is None:
        return None
    value = _unescape(term[operator.end() :])
    if value is None:
        return None
    return FieldRequirement(term[: operator.start()], operator[0].replace("==", "="), value)


def _unescape(value: str) -> str | None:
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
_MAX_NAME_LENGTH = 63
_DIGITS = re.compile(r"[0-9]+")
_MAX_INTEGER = 2**63 - 1
_EXACT_OPERATORS = {"=": "=", "==": "==", "!=": "!=", "<": "lt", ">": "gt"}


class LabelRequirement(NamedTuple):
    """One condition. Operators: `in notin = == != gt lt exists !`; values are a sorted set."""

    key: str
    operator: str
    values: tuple[str, ...]


class _Unparsable(Exception):
    """The selector does not match the grammar."""


def parse_label_selector(selector: str) -> tuple[LabelRequirement, ...] | None:
    """Parse a label selector into requirements sorted by key, or None if it does not parse."""
    try:
        requirements = _Parser(selector).requirements()
    except _Unparsable:
        return None
    return tuple(sorted(requirements, key=lambda requirement: requirement.key))


class _Parser:
    """A single-pass parser. `in` and `notin` are identifiers wherever an identifier may occur.

    Each token is scanned on demand, so text after the first error costs nothing.
    """

    def __init__(self, selector: str) -> None:
        self._selector = selector
        self._position = 0
        self._token = _END
        self._scan_token()

    def requirements(self) -> list[LabelRequirement]:
        """Return every requirement in the order of the text."""
        requirements: list[LabelRequirement] = []
        if self._peek() == _END:
            return requirements
        while True:
            requirements.append(self._requirement())
            separator = self._next_token()
            if separator == _END:
                return requirements
            # A trailing comma fails in the next requirement, which finds no key.
            if separator != ",":
                raise _Unparsable

    def _scan_token(self) -> None:
        """Scan an identifier or a symbol; an empty token is the end.

        A NUL where a token could begin ends the text. Elsewhere it ends the token before it.
        Kubernetes does the same, because it treats NUL as the end of its buffer.
        """
        match = _TOKEN.match(self._selector, self._position)
        if match is None:
            self._token, self._position = _END, len(self._selector)
        else:
            self._token, self._position = match[1], match.end()

    def _peek(self) -> str:
        return self._token

    def _next_token(self) -> str:
        token = self._token
        self._scan_token()
        return token

    def _next_identifier(self) -> str:
        token = self._next_token()
        if token in _SYMBOLS:
            raise _Unparsable
        return token

    def _requirement(self) -> LabelRequirement:
        is_negated = self._peek() == "!"
        if is_negated:
            self._next_token()
        key = self._next_identifier()
        if not _is_label_key(key):
            raise _Unparsable
        if is_negated:
            return LabelRequirement(key, "!", ())
        if self._peek() in {_END, ","}:
            return LabelRequirement(key, "exists", ())
        return self._comparison(key)

    def _comparison(self, key: str) -> LabelRequirement:
        token = self._next_token()
        if token in {"in", "notin"}:
            operator, values = token, self._set()
        elif token in _EXACT_OPERATORS:
            operator = _EXACT_OPERATORS[token]
            values = {"" if self._peek() in {_END, ","} else self._next_identifier()}
        else:
            raise _Unparsable
        if not all(map(_is_label_value, values)):
            raise _Unparsable
        if operator in {"lt", "gt"} and not all(map(_is_integer, values)):
            raise _Unparsable
        return LabelRequirement(key, operator, tuple(sorted(values)))

    def _set(self) -> set[str]:
        """Parse the values between parentheses; nothing between two commas is the empty value."""
        if self._next_token() != "(":
            raise _Unparsable
        values: set[str] = set()
        while True:
            if self._peek() in {",", ")"}:
                values.add("")
            else:
                values.add(self._next_identifier())
            separator = self._next_token()
            if separator == ")":
                return values
            if separator != ",":
                raise _Unparsable


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    # A second slash would remain in the prefix, and no subdomain contains one.
    if slash and not is_subdomain(prefix):
        return False
    return name != "" and _is_label_value(name)


def _is_label_value(value: str) -> bool:
    if not value:
        return True
    return len(value) <= _MAX_NAME_LENGTH and _NAME.fullmatch(value) is not None


def _is_integer(value: str) -> bool:
    return _DIGITS.fullmatch(value) is not None and int(value) <= _MAX_INTEGER
