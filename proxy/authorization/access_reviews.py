"""SubjectAccessReviews: the checks of a decision, asked of the real API server."""

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.access_check import AccessCheck
from proxy.core.access_review import REFUSED_REVIEW, REVIEWS_PATH, read_answer, review_document
from proxy.core.errors import ReviewRefused, UpstreamUnavailable
from proxy.core.evaluation import Answer

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

        No answer is neither a yes nor a no. A throttled review is no answer either. ReviewRefused
        if the API server does not accept what the review contains.
        """
        try:
            review = await self._client.call_api(
                REVIEWS_PATH,
                "POST",
                body=review_document(check),
                auth_settings=["BearerToken"],
                response_types_map={200: "object", 201: "object"},
                _return_http_data_only=True,
            )
            return read_answer(review)
        except _NO_ANSWER as error:
            if isinstance(error, ApiException) and error.status in REFUSED_REVIEW:
                raise ReviewRefused(
                    "access cannot be reviewed: the API server does not accept the review of this "
                    f"request (status {error.status})"
                ) from error
            raise UpstreamUnavailable("access cannot be reviewed", retry_after_seconds=1) from error
