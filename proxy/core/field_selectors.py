"""Field selectors, read with the rules of Kubernetes' `fields` package."""

import re
from typing import NamedTuple

_OPERATOR = re.compile("!=|==|=")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_ESCAPABLE = ("\\", ",", "=")


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
    start = 0
    is_escaped = False
    for index, character in enumerate(selector):
        if is_escaped:
            is_escaped = False  # whatever it is, it is data
        elif character == "\\":
            is_escaped = True
        elif character == ",":
            terms.append(selector[start:index])
            start = index + 1
    return [*terms, selector[start:]]


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
    if any(escaped not in _ESCAPABLE for escaped in _ESCAPE.findall(value)):
        return None
    # What is left once the escapes are gone must hold no bare separator.
    if "=" in _ESCAPE.sub("", value):
        return None
    return _ESCAPE.sub(r"\1", value)
