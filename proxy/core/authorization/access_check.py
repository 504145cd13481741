"""Access checks, their results, and their form as SubjectAccessReviews."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from proxy.core.requestinfo.selectors import FieldRequirement, LabelRequirement
from proxy.core.userinfo import UserInfo


class CheckResult(NamedTuple):
    """The result of an access check. Anything but an explicit allow is a denial."""

    allowed: bool
    reason: str = ""
    error: str = ""


_ESCAPED_IN_RAW = re.compile(r"([\\,=])")
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
    """A user, a verb, and either a resource or a non-resource path."""

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
    """Return field requirements for a review; an empty list must be omitted from it."""
    return [
        SelectorRequirement(field, _FIELD_OPERATORS[operator], (value,))
        for field, operator, value in fields
    ]


def raw_field_selector(fields: Iterable[FieldRequirement]) -> str:
    """Return field requirements as one text, for those that have no other form in a review.

    A review rejects a requirement with an empty field, although kube-apiserver itself accepts and
    authorizes one. As a raw selector, the review parses it in the same way.
    """
    return ",".join(
        f"{field}{operator}{_ESCAPED_IN_RAW.sub(_RAW_ESCAPE, value)}"
        for field, operator, value in fields
    )


def label_requirements(labels: Iterable[LabelRequirement]) -> list[SelectorRequirement]:
    """Return label requirements for a review; an empty list must be omitted from it.

    A review cannot express comparisons with numbers. Dropping one only makes the check broader.
    """
    return [
        SelectorRequirement(key, _LABEL_OPERATORS[operator], values)
        for key, operator, values in labels
        if operator in _LABEL_OPERATORS
    ]


REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

REVIEW_TOO_LARGE = frozenset((400, 413, 414, 422, 431))
"""Status codes with which an API server rejects a review because of its content. They are not
failures of the server. Other codes concern the reviewing account or the server."""

ESCAPED_BYTES = 6
"""The maximum number of JSON bytes for one byte of text: a control character is `\\u0000`."""

# The JSON overhead of a text in a list, of a selector requirement, and of the document.
_TEXT_BYTES = len('"", ')
_REQUIREMENT_BYTES = len('{"key": "", "operator": "DoesNotExist", "values": []}, ')
_DOCUMENT_BYTES = 512


def subject_access_review(check: AccessCheck) -> dict[str, object]:
    """Return the SubjectAccessReview of a check."""
    user = check.user
    spec: dict[str, object] = {"user": user.name, "groups": list(user.groups)}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra}
    if check.is_resource:
        spec["resourceAttributes"] = _resource_attributes(check)
    else:
        spec["nonResourceAttributes"] = {"path": check.path, "verb": check.verb}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec,
    }


def is_review_larger_than(check: AccessCheck, max_bytes: int) -> bool:
    """Return whether the review of a check exceeds a size, not counting JSON escapes.

    The document itself has at most `ESCAPED_BYTES` times as many bytes. It is not built here. No
    more texts are measured than fit into the bound, because a caller chooses their number.
    """
    return any(size > max_bytes for size in accumulate(_size_parts(check)))


def _size_parts(check: AccessCheck) -> Iterator[int]:
    """Yield the parts of a review's size. Each is cheap to compute if those before it are small."""
    user, labels = check.user, check.labels
    yield (
        _DOCUMENT_BYTES
        + _REQUIREMENT_BYTES * (len(labels) + len(check.fields))
        + _TEXT_BYTES * (len(user.groups) + 2 * len(user.extra))
    )
    lists = [values for _, values in user.extra]
    lists += [values for _, _, values in labels]
    yield _TEXT_BYTES * sum(map(len, lists))
    yield _total_bytes((check.verb, check.group, check.version, check.resource, check.subresource))
    yield _total_bytes((check.namespace, check.name, check.path, user.name, user.uid))
    yield _total_bytes(key for key, _ in user.extra)
    yield _total_bytes(key for key, _, _ in labels)
    for texts in (user.groups, *lists, *check.fields):
        yield _total_bytes(texts)


def _total_bytes(texts: Iterable[str]) -> int:
    return sum(
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        for text in texts
    )


def parse_review_status(review: Mapping[str, Mapping[str, object]]) -> CheckResult:
    """Parse the result of a review; raise any exception if the document is not a review."""
    status = review["status"]
    return CheckResult(
        # A review that is both allowed and denied is not allowed.
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
    # The API rejects an empty list of requirements, so an empty selector is omitted.
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
            {
                "key": requirement.key,
                "operator": requirement.operator,
                "values": list(requirement.values),
            }
            for requirement in requirements
        ]
    }
