"""List options: the query of a list, watch or deletecollection, as kube-apiserver decodes it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.errors import BadRequest
from proxy.core.gocompat.url import QueryParameter, first_value
from proxy.core.requestinfo.selectors import (
    FieldRequirement,
    LabelRequirement,
    exact_match,
    parse_field_selector,
    parse_label_selector,
)

_INTEGER = re.compile(r"([+-]?)([0-9]+)")
_MAX_DIGITS = 19
_MAX_INTEGER = 2**63 - 1
# Two patterns for "false", because kube-apiserver has two: a full decode also folds the long s.
_FOLDED_FALSE = re.compile("[fF][aA][lL][sS\u017f][eE]")
_LOWERED_FALSE = re.compile("[fF][aA][lL][sS][eE]")
_INTEGERS = ("timeoutSeconds", "limit")
_WATCH = QueryParameter("watch")
_PARAMETERS = (
    _WATCH,
    *(QueryParameter(name) for name in ("fieldSelector", "labelSelector", *_INTEGERS)),
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a query. `name` is the object name that its field selector requires, or empty.

    Requirements are None if their selector does not parse. `is_watch` is valid even then.
    """

    is_watch: bool = False
    name: str = ""
    fields: tuple[FieldRequirement, ...] | None = ()
    labels: tuple[LabelRequirement, ...] | None = ()


DEFAULT_LIST_OPTIONS = ListOptions()
DEFAULT_SELECTOR_TERMS = 1000
"""The maximum total number of requirements and values in the selectors of one request."""


class SelectorTooLarge(BadRequest):
    """The selector is too long, or no review could carry it unchanged."""


def parse_list_options(query: bytes, *, max_terms: int = DEFAULT_SELECTOR_TERMS) -> ListOptions:
    """Parse the options of a query; raise SelectorTooLarge if its selectors are rejected."""
    values = _first_values(query, _PARAMETERS) if query else {}
    if not values:
        return DEFAULT_LIST_OPTIONS
    selector, label_selector = values.get("fieldSelector", ""), values.get("labelSelector", "")
    # Terms are separated by commas, so the commas bound the number of terms.
    if selector.count(",") + label_selector.count(",") >= max_terms:
        raise SelectorTooLarge(f"the selectors have more than {max_terms} terms")
    _reject_invalid_utf8(selector)
    fields, labels = parse_field_selector(selector), parse_label_selector(label_selector)
    if fields is None or labels is None or not _are_integers(values):
        return ListOptions(_is_true(values, _LOWERED_FALSE), "", fields, labels)
    return ListOptions(_is_true(values, _FOLDED_FALSE), _required_name(fields), fields, labels)


def parse_watch_option(query: bytes) -> ListOptions:
    """Parse only the watch option of a query, and leave its selectors unparsed."""
    values = _first_values(query, (_WATCH,))
    return ListOptions(_is_true(values, _FOLDED_FALSE), "", None, None)


def _first_values(query: bytes, parameters: Sequence[QueryParameter]) -> dict[str, str]:
    """Return the first value of each of these parameters that is present."""
    found = ((parameter.name, first_value(query, parameter)) for parameter in parameters)
    return {name: value for name, value in found if value is not None}


def _reject_invalid_utf8(selector: str) -> None:
    # A review carries the selector as JSON, which would change these bytes into other text.
    try:
        selector.encode()
    except UnicodeEncodeError:
        raise SelectorTooLarge("the field selector is not valid UTF-8") from None


def _required_name(fields: tuple[FieldRequirement, ...]) -> str:
    name = exact_match(fields, "metadata.name") or ""
    return "" if name in {".", ".."} or "/" in name or "%" in name else name


def _is_true(values: dict[str, str], false: re.Pattern[str]) -> bool:
    value = values.get("watch", "0")
    return value != "0" and false.fullmatch(value) is None


def _are_integers(values: dict[str, str]) -> bool:
    return all(_is_integer(values[name]) for name in _INTEGERS if name in values)


def _is_integer(text: str) -> bool:
    match = _INTEGER.fullmatch(text)
    if match is None:
        return False
    digits = match[2].lstrip("0")
    if len(digits) > _MAX_DIGITS:
        return False
    return int(digits or "0") <= _MAX_INTEGER + (match[1] == "-")
