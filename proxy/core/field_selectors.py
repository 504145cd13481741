"""Field selectors, read with the rules of Kubernetes' `fields` package."""

import re
from typing import NamedTuple

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
