"""One question to an authorizer, and what becomes of selectors on the way there."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from proxy.core.field_selectors import FieldRequirement
from proxy.core.identity import Identity
from proxy.core.label_selectors import LabelRequirement

_RAW_ESCAPED = re.compile(r"([\\,=])")
_RAW_ESCAPE = r"\\\1"
_FIELD_OPERATORS = {"=": "In", "!=": "NotIn"}
_LABEL_OPERATORS = {
    "in": "In",
    "=": "In",
    "==": "In",
    "notin": "NotIn",
    "!=": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
}


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """May this user do this? Either a resource is named, or only a path is."""

    user: Identity
    verb: str
    is_resource: bool = True
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: tuple[FieldRequirement, ...] = ()
    labels: tuple[LabelRequirement, ...] = ()


class ReviewRequirement(NamedTuple):
    """A selector requirement as a SubjectAccessReview carries it."""

    key: str
    operator: str
    values: tuple[str, ...]


def field_review(fields: Iterable[FieldRequirement]) -> list[ReviewRequirement]:
    """Return field requirements for a review; an empty list must be left out of it."""
    return [
        ReviewRequirement(field, _FIELD_OPERATORS[operator], (value,))
        for field, operator, value in fields
    ]


def raw_field_review(fields: Iterable[FieldRequirement]) -> str:
    """Return field requirements as one text, for those that have no other form in a review.

    An empty field is refused there as a requirement, while the API server itself reads and
    judges it; as a text the review reads it in the same way.
    """
    return ",".join(
        f"{field}{operator}{_RAW_ESCAPED.sub(_RAW_ESCAPE, value)}"
        for field, operator, value in fields
    )


def label_review(labels: Iterable[LabelRequirement]) -> list[ReviewRequirement]:
    """Return label requirements for a review; an empty list must be left out of it.

    Comparisons with numbers have no form there. Dropping one only makes the question broader.
    """
    return [
        ReviewRequirement(key, _LABEL_OPERATORS[operator], values)
        for key, operator, values in labels
        if operator in _LABEL_OPERATORS
    ]
