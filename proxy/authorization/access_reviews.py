"""SubjectAccessReviews: the checks of a decision, asked of the real API server."""

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.access_check import (
    AccessCheck,
    ReviewRequirement,
    field_review,
    label_review,
    raw_field_review,
)
from proxy.core.errors import UpstreamUnavailable
from proxy.core.evaluation import Answer

_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# Errors of the transport, of HTTP, and of an answer that does not look like one.
_NO_ANSWER = (
    ApiException,
    aiohttp.ClientError,
    OSError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


class KubernetesAccessReviewer:
    """Asks the API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def review(self, check: AccessCheck) -> Answer:
        """Return the authorizers' answer; UpstreamUnavailable when there is none.

        No answer is neither a yes nor a no. A throttled review is no answer either.
        """
        try:
            review = await self._client.call_api(
                _PATH,
                "POST",
                body=_review(check),
                auth_settings=["BearerToken"],
                response_types_map={200: "object", 201: "object"},
                _return_http_data_only=True,
            )
            return _answer(review)
        except _NO_ANSWER as error:
            raise UpstreamUnavailable("access cannot be reviewed", retry_after_seconds=1) from error


def _answer(review: dict[str, dict[str, object]]) -> Answer:
    status = review["status"]
    return Answer(
        # Who says both yes and no has not said yes.
        allowed=status.get("allowed") is True and not status.get("denied"),
        reason=str(status.get("reason", "")),
        error=str(status.get("evaluationError", "")),
    )


def _review(check: AccessCheck) -> dict[str, object]:
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
