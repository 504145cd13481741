"""One question to an authorizer, and what becomes of selectors on the way there."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from proxy.core.requestinfo.selectors import FieldRequirement, LabelRequirement
from proxy.core.userinfo import UserInfo


class CheckResult(NamedTuple):
    """The reply to a question. Anything but a clear yes is a no."""

    allowed: bool
    reason: str = ""
    error: str = ""


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

    user: UserInfo
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


class SelectorRequirement(NamedTuple):
    """A selector requirement as a SubjectAccessReview carries it."""

    key: str
    operator: str
    values: tuple[str, ...]


def field_requirements(fields: Iterable[FieldRequirement]) -> list[SelectorRequirement]:
    """Return field requirements for a review; an empty list must be left out of it."""
    return [
        SelectorRequirement(field, _FIELD_OPERATORS[operator], (value,))
        for field, operator, value in fields
    ]


def raw_field_selector(fields: Iterable[FieldRequirement]) -> str:
    """Return field requirements as one text, for those that have no other form in a review.

    An empty field is refused there as a requirement, while the API server itself reads and
    judges it; as a text the review reads it in the same way.
    """
    return ",".join(
        f"{field}{operator}{_RAW_ESCAPED.sub(_RAW_ESCAPE, value)}"
        for field, operator, value in fields
    )


def label_requirements(labels: Iterable[LabelRequirement]) -> list[SelectorRequirement]:
    """Return label requirements for a review; an empty list must be left out of it.

    Comparisons with numbers have no form there. Dropping one only makes the question broader.
    """
    return [
        SelectorRequirement(key, _LABEL_OPERATORS[operator], values)
        for key, operator, values in labels
        if operator in _LABEL_OPERATORS
    ]


REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

REVIEW_TOO_LARGE = frozenset((400, 413, 414, 422, 431))
"""Statuses by which an API server refuses a review for what is in it. It answers, so they are no
failure of it. Other statuses are about the account that asks, or about the server."""

ESCAPED_BYTES = 6
"""The most bytes of JSON that one byte of a text becomes: a control character is `\\u0000`."""

# What JSON adds to a text in a list, to a selector requirement, and to the whole.
_TEXT_BYTES = len('"", ')
_REQUIREMENT_BYTES = len('{"key": "", "operator": "DoesNotExist", "values": []}, ')
_DOCUMENT_BYTES = 512


def subject_access_review(check: AccessCheck) -> dict[str, object]:
    """Return the review that asks about a check."""
    user = check.user
    specification: dict[str, object] = {"user": user.name, "groups": list(user.groups)}
    if user.uid:
        specification["uid"] = user.uid
    if user.extra:
        specification["extra"] = {key: list(values) for key, values in user.extra}
    if check.is_resource:
        specification["resourceAttributes"] = _resource_attributes(check)
    else:
        specification["nonResourceAttributes"] = {"path": check.path, "verb": check.verb}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": specification,
    }


def is_larger_than(check: AccessCheck, most_bytes: int) -> bool:
    """Return whether the review of a check is larger than that, before JSON escapes anything.

    The document itself has at most `ESCAPED_BYTES` times as many. It is not built here, and no
    more texts are looked at than fit into the bound: a caller chooses how many there are.
    """
    return any(size > most_bytes for size in accumulate(_sizes(check)))


def _sizes(check: AccessCheck) -> Iterator[int]:
    """Yield the parts of a review's size: each takes little time if those before it are small."""
    user, labels = check.user, check.labels
    yield (
        _DOCUMENT_BYTES
        + _REQUIREMENT_BYTES * (len(labels) + len(check.fields))
        + _TEXT_BYTES * (len(user.groups) + 2 * len(user.extra))
    )
    lists = [values for _, values in user.extra]
    lists += [values for _, _, values in labels]
    yield _TEXT_BYTES * sum(map(len, lists))
    yield _bytes_of((check.verb, check.group, check.version, check.resource, check.subresource))
    yield _bytes_of((check.namespace, check.name, check.path, user.name, user.uid))
    yield _bytes_of(key for key, _ in user.extra)
    yield _bytes_of(key for key, _, _ in labels)
    for texts in (user.groups, *lists, *check.fields):
        yield _bytes_of(texts)


def _bytes_of(texts: Iterable[str]) -> int:
    return sum(
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        for text in texts
    )


def parse_review_status(review: Mapping[str, Mapping[str, object]]) -> CheckResult:
    """Return what the authorizers said; fails with whatever it meets if that is not a review."""
    status = review["status"]
    return CheckResult(
        # Who says both yes and no has not said yes.
        allowed=status.get("allowed") is True and not status.get("denied"),
        reason=str(status.get("reason", "")),
        error=str(status.get("evaluationError", "")),
    )


def _resource_attributes(check: AccessCheck) -> dict[str, object]:
    attributes: dict[str, object] = {
        "namespace": check.namespace,
        "verb": check.verb,
        "group": check.group,
        "version": check.version,
        "resource": check.resource,
        "subresource": check.subresource,
        "name": check.name,
    }
    # An empty list of requirements is refused by the API, so an empty selector stays out.
    if any(not requirement.field for requirement in check.fields):
        attributes["fieldSelector"] = {"rawSelector": raw_field_selector(check.fields)}
    elif fields := field_requirements(check.fields):
        attributes["fieldSelector"] = _requirements(fields)
    if labels := label_requirements(check.labels):
        attributes["labelSelector"] = _requirements(labels)
    return attributes


def _requirements(requirements: list[SelectorRequirement]) -> dict[str, object]:
    return {
        "requirements": [
            {"key": one.key, "operator": one.operator, "values": list(one.values)}
            for one in requirements
        ]
    }
