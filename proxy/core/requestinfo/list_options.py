"""The query of a list, watch or collection request, decoded as the API server decodes it."""

import re
from dataclasses import dataclass

from proxy.core.errors import BadRequest
from proxy.core.gocompat.url import first_values
from proxy.core.requestinfo.selectors import (
    FieldRequirement,
    LabelRequirement,
    exact_match,
    parse_field_selector,
    parse_label_selector,
)

_INTEGER = re.compile(r"([+-]?)([0-9]+)")
_MOST_DIGITS = 19
_LARGEST_INTEGER = 2**63 - 1
# Two readings of "false", because the original has two: a full decode folds the long s as well.
_FOLDED_FALSE = re.compile("[fF][aA][lL][sS\u017f][eE]")
_LOWERED_FALSE = re.compile("[fF][aA][lL][sS][eE]")
_INTEGERS = ("timeoutSeconds", "limit")
_PARAMETERS = frozenset({"watch", "fieldSelector", "labelSelector", *_INTEGERS})
_WATCH = frozenset({"watch"})


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a query selects. `name` is the object that its field selector pins, or empty.

    Requirements are None when their selector does not parse; `is_watch` holds even then.
    """

    is_watch: bool = False
    name: str = ""
    fields: tuple[FieldRequirement, ...] | None = ()
    labels: tuple[LabelRequirement, ...] | None = ()


NO_OPTIONS = ListOptions()
DEFAULT_SELECTOR_TERMS = 1000
"""How many requirements and values the selectors of one request may have together."""


class SelectorTooLarge(BadRequest):
    """A selector is not read: it is too long, or no review could carry it unchanged."""


def read_list_options(query: bytes, *, most_terms: int = DEFAULT_SELECTOR_TERMS) -> ListOptions:
    """Return what a query asks of a collection; SelectorTooLarge if its selectors are not read."""
    values = first_values(query, _PARAMETERS) if query else {}
    if not values:
        return NO_OPTIONS
    selector, label_selector = values.get("fieldSelector", ""), values.get("labelSelector", "")
    # A comma stands between any two terms, so there are no more than this.
    if selector.count(",") + label_selector.count(",") >= most_terms:
        raise SelectorTooLarge(f"the selectors have more than {most_terms} terms")
    _refuse_foreign_bytes(selector)
    fields, labels = parse_field_selector(selector), parse_label_selector(label_selector)
    if fields is None or labels is None or not _are_integers(values):
        return ListOptions(_is_true(values, _LOWERED_FALSE), "", fields, labels)
    return ListOptions(_is_true(values, _FOLDED_FALSE), _pinned_name(fields), fields, labels)


def read_without_selectors(query: bytes) -> ListOptions:
    """Return whether a query asks for a watch, and nothing about its selectors."""
    values = first_values(query, _WATCH)
    return ListOptions(_is_true(values, _FOLDED_FALSE), "", None, None)


def _refuse_foreign_bytes(selector: str) -> None:
    # A review carries the selector as JSON, where these bytes would become other text.
    try:
        selector.encode()
    except UnicodeEncodeError:
        raise SelectorTooLarge("the field selector is not valid UTF-8") from None


def _pinned_name(fields: tuple[FieldRequirement, ...]) -> str:
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
    if len(digits) > _MOST_DIGITS:
        return False
    return int(digits or "0") <= _LARGEST_INTEGER + (match[1] == "-")
