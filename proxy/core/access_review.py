"""A check as a SubjectAccessReview, and the answer in the review that comes back."""

from collections.abc import Mapping

from proxy.core.access_check import (
    AccessCheck,
    ReviewRequirement,
    field_review,
    label_review,
    raw_field_review,
)
from proxy.core.evaluation import Answer

REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def review_document(check: AccessCheck) -> dict[str, object]:
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


def read_answer(review: Mapping[str, Mapping[str, object]]) -> Answer:
    """Return what the authorizers said; fails with whatever it meets if that is not a review."""
    status = review["status"]
    return Answer(
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
        attributes["fieldSelector"] = {"rawSelector": raw_field_review(check.fields)}
    elif fields := field_review(check.fields):
        attributes["fieldSelector"] = _requirements(fields)
    if labels := label_review(check.labels):
        attributes["labelSelector"] = _requirements(labels)
    return attributes


def _requirements(requirements: list[ReviewRequirement]) -> dict[str, object]:
    return {
        "requirements": [
            {"key": one.key, "operator": one.operator, "values": list(one.values)}
            for one in requirements
        ]
    }
