"""A cluster as somebody's kubeconfig reaches it: access reviews, RBAC, discovery.

Whatever goes wrong is one line for a person. Nothing here changes anything in the cluster.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

import aiohttp
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration

from proxy.core.authorization.access_check import (
    REVIEWS_PATH,
    AccessCheck,
    CheckResult,
    parse_review_status,
    subject_access_review,
)
from proxy.core.errors import OperatorError

Object = dict[str, Any]
"""An object of the API as it came."""

_Answer = TypeVar("_Answer")

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PAGE = 500
_AT_ONCE = 16
_SECONDS = 30.0
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
# How the library meets a kubeconfig that is not one, a plugin that fails, a file that is not there.
_UNUSABLE = (config.ConfigException, OSError, AssertionError, StopIteration, *_UNREADABLE)
_JSON = "application/json"


class ClusterError(OperatorError):
    """The cluster cannot be reached, or does not answer."""


class RbacObjects(NamedTuple):
    """Every RBAC object of a cluster."""

    roles: list[Object]
    cluster_roles: list[Object]
    role_bindings: list[Object]
    cluster_role_bindings: list[Object]


class Cluster:
    """Asks one API server. `namespace` is where the kubeconfig's context looks by default."""

    def __init__(self, client: ApiClient, namespace: str = "default") -> None:
        self._client = client
        self._host = str(client.configuration.host)
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.namespace = namespace

    async def review(self, check: AccessCheck) -> CheckResult:
        """Return the authorizers' answer to one check."""
        review = await self._call("POST", REVIEWS_PATH, body=subject_access_review(check))
        try:
            return parse_review_status(review)
        except _UNREADABLE as error:
            raise ClusterError(f"{self._host} did not answer a review with one") from error

    async def review_all(self, checks: Sequence[AccessCheck]) -> list[CheckResult]:
        """Return the answers to several checks, in their order."""
        return await _all([self.review(check) for check in checks])

    async def get(self, path: str, *, accept: str = _JSON) -> Object:
        """Return what is at a path."""
        return await self._call("GET", path, accept=accept)

    async def items(self, path: str) -> list[Object]:
        """Return every object of a collection, page by page."""
        items: list[Object] = []
        following = ""
        while True:
            page = await self.get(f"{path}?limit={_PAGE}{following}")
            found = page.get("items")
            if not isinstance(found, list):
                raise ClusterError(f"{self._host} did not answer {path} with a list")
            items += found
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            following = f"&continue={quote(token, safe='')}"

    async def rbac(self) -> RbacObjects:
        """Return every role and every binding."""
        kinds = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
        return RbacObjects(*await _all([self.items(f"{_RBAC}/{kind}") for kind in kinds]))

    async def version(self) -> tuple[int, int]:
        """Return the API server's version, (0, 0) if it does not tell one that can be read."""
        told = await self.get("/version")
        try:
            return int(told["major"]), int(str(told["minor"]).rstrip("+"))
        except _UNREADABLE:
            return 0, 0

    async def _call(
        self, method: str, path: str, *, body: object = None, accept: str = _JSON
    ) -> Object:
        try:
            async with self._places:
                answer = await self._client.call_api(
                    path,
                    method,
                    header_params={"Accept": accept},
                    body=body,
                    auth_settings=["BearerToken"],
                    response_types_map={200: "object", 201: "object"},
                    _return_http_data_only=True,
                    _request_timeout=_SECONDS,
                )
        except ApiException as error:
            raise ClusterError(self._refused(method, path, error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = _one_line(error) or f"no answer in {_SECONDS:.0f} s"
            raise ClusterError(f"cannot reach {self._host}: {reason}") from error
        if not isinstance(answer, dict):
            raise ClusterError(f"{self._host} answered {path} with something else than an object")
        return answer

    def _refused(self, method: str, path: str, error: ApiException) -> str:
        if error.status == 401:  # noqa: PLR2004 - its number is its name
            return f"{self._host} does not know who you are: is the credential expired?"
        try:
            told = _one_line(json.loads(error.body or b"")["message"])
        except _UNREADABLE:
            told = str(error.reason)
        if error.status == 403 and path == REVIEWS_PATH:  # noqa: PLR2004 - likewise
            return f"you may not ask what others may do, which advice needs: {told}"
        return (
            f"{self._host} answered {method} {path.partition('?')[0]} with {error.status}: {told}"
        )


@asynccontextmanager
async def open_cluster(
    kubeconfig: Mapping[str, Any] | None, *, namespace: str | None = None
) -> AsyncIterator[Cluster]:
    """Yield the cluster of a kubeconfig's current context, or without one that of our own pod.

    Paths in the kubeconfig must be absolute.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None:
            load = cast("Callable[..., None]", config.load_incluster_config)  # half typed
            load(client_configuration=configuration, try_refresh_token=False)
        else:
            await config.load_kube_config_from_dict(
                dict(kubeconfig), client_configuration=configuration
            )
        client = ApiClient(configuration)
    except _UNUSABLE as error:
        raise ClusterError(f"cannot use the kubeconfig: {_one_line(error)}") from error
    async with client:
        yield Cluster(client, namespace or "default")


def is_in_cluster() -> bool:
    """Tell whether a cluster is there without a kubeconfig."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


async def _all(calls: Sequence[Coroutine[Any, Any, _Answer]]) -> list[_Answer]:
    """Make calls side by side; the first that fails fails them all, with its own error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
