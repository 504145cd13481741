"""Who we are at the API server, by its own word."""

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.core.errors import UpstreamUnavailable

_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_SECONDS = 5.0


async def own_name(client: ApiClient) -> str:
    """Return the user name that the API server knows us by."""
    try:
        review = await client.call_api(
            _PATH,
            "POST",
            body=_REVIEW,
            auth_settings=["BearerToken"],
            response_types_map={200: "object", 201: "object"},
            _return_http_data_only=True,
            _request_timeout=_SECONDS,
        )
        name: str = review["status"]["userInfo"]["username"]
    except (ApiException, aiohttp.ClientError, OSError, KeyError, TypeError, ValueError) as error:
        raise UpstreamUnavailable("the API server does not tell who we are") from error
    return name
