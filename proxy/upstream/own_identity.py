"""Who we are at the API server, by its own word."""

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.errors import UpstreamUnavailable

_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_SECONDS = 5.0
# No answer came, or one that does not look like one.
NO_ANSWER = (aiohttp.ClientError, OSError, KeyError, TypeError, ValueError)


async def own_name(client: ApiClient) -> str:
    """Return the user name that the API server knows us by."""
    try:
        review = await review_ourselves(client)
        name: str = review["status"]["userInfo"]["username"]
    except (ApiException, *NO_ANSWER) as error:
        raise UpstreamUnavailable("the API server does not tell who we are") from error
    return name


async def review_ourselves(
    client: ApiClient, host: str | None = None
) -> dict[str, dict[str, dict[str, str]]]:
    """Ask any endpoint, or the one that starts with this URL, who we are; in bounded time.

    Our credential goes alone: no identity is asked for, and none of a client's headers.
    """
    review: dict[str, dict[str, dict[str, str]]] = await client.call_api(
        _PATH,
        "POST",
        body=_REVIEW,
        auth_settings=["BearerToken"],
        response_types_map={200: "object", 201: "object"},
        _return_http_data_only=True,
        _request_timeout=_SECONDS,
        _host=host,
    )
    return review
