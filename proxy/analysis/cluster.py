"""Client of a cluster by the operator's kubeconfig: access reviews, RBAC, discovery.

Every failure is a one-line error message. No call but `delete` changes anything in the cluster.
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
"""An API object as received."""

_Result = TypeVar("_Result")

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PAGE_SIZE = 500
_NOT_FOUND = 404
_MAX_CONCURRENT = 16
_TIMEOUT_SECONDS = 30.0
_PARSE_ERRORS = (AttributeError, KeyError, TypeError, ValueError)
# What the library raises for an invalid kubeconfig, a failing plugin or a missing file.
_KUBECONFIG_ERRORS = (
    config.ConfigException,
    OSError,
    AssertionError,
    StopIteration,
    *_PARSE_ERRORS,
)
_JSON = "application/json"


class ClusterError(OperatorError):
    """The cluster cannot be reached, or does not respond as expected."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        """`code` is the status code of the response, or 0 without one."""
        super().__init__(message)
        self.code = code


class RbacObjects(NamedTuple):
    """All RBAC objects of a cluster."""

    roles: list[Object]
    cluster_roles: list[Object]
    role_bindings: list[Object]
    cluster_role_bindings: list[Object]


class Cluster:
    """Client of one API server. `namespace` is the default of the kubeconfig's context."""

    def __init__(self, client: ApiClient, namespace: str = "default") -> None:
        self._client = client
        self._host = str(client.configuration.host)
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self.namespace = namespace

    async def review(self, check: AccessCheck) -> CheckResult:
        """Return the result of one access check."""
        review = await self._call("POST", REVIEWS_PATH, body=subject_access_review(check))
        try:
            return parse_review_status(review)
        except _PARSE_ERRORS as error:
            raise ClusterError(f"{self._host} returned an unreadable access review") from error

    async def review_all(self, checks: Sequence[AccessCheck]) -> list[CheckResult]:
        """Return the results of several access checks, in their order."""
        return await _call_all([self.review(check) for check in checks])

    async def get(self, path: str, *, accept: str = _JSON) -> Object:
        """Return the object at a path."""
        return await self._call("GET", path, accept=accept)

    async def delete(self, path: str) -> None:
        """Delete the object at a path. An object that no longer exists is not an error."""
        try:
            await self._call("DELETE", path)
        except ClusterError as error:
            if error.code != _NOT_FOUND:
                raise

    async def items(self, path: str) -> list[Object]:
        """Return every object of a collection, page by page."""
        items: list[Object] = []
        continuation = ""
        while True:
            page = await self.get(f"{path}?limit={_PAGE_SIZE}{continuation}")
            found = page.get("items")
            if not isinstance(found, list):
                raise ClusterError(f"{self._host} returned no list for {path}")
            items += found
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            continuation = f"&continue={quote(token, safe='')}"

    async def rbac(self) -> RbacObjects:
        """Return every role and every binding."""
        kinds = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
        return RbacObjects(*await _call_all([self.items(f"{_RBAC}/{kind}") for kind in kinds]))

    async def version(self) -> tuple[int, int]:
        """Return the API server's version, or (0, 0) if it cannot be parsed."""
        version = await self.get("/version")
        try:
            return int(version["major"]), int(str(version["minor"]).rstrip("+"))
        except _PARSE_ERRORS:
            return 0, 0

    async def _call(
        self, method: str, path: str, *, body: object = None, accept: str = _JSON
    ) -> Object:
        try:
            async with self._slots:
                response = await self._client.call_api(
                    path,
                    method,
                    header_params={"Accept": accept},
                    body=body,
                    auth_settings=["BearerToken"],
                    response_types_map={200: "object", 201: "object"},
                    _return_http_data_only=True,
                    _request_timeout=_TIMEOUT_SECONDS,
                )
        except ApiException as error:
            message = self._error_message(method, path, error)
            raise ClusterError(message, code=error.status or 0) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = _one_line(error) or f"no response within {_TIMEOUT_SECONDS:.0f} s"
            raise ClusterError(f"cannot reach {self._host}: {reason}") from error
        if not isinstance(response, dict):
            raise ClusterError(f"{self._host} returned no object for {path}")
        return response

    def _error_message(self, method: str, path: str, error: ApiException) -> str:
        if error.status == 401:  # noqa: PLR2004 - the number is clearer than a name
            return f"{self._host} did not accept your credential (401): is it expired?"
        try:
            message = _one_line(json.loads(error.body or b"")["message"])
        except _PARSE_ERRORS:
            message = str(error.reason)
        if error.status == 403 and path == REVIEWS_PATH:  # noqa: PLR2004 - likewise
            return (
                f"you are not allowed to create SubjectAccessReviews, which this needs: {message}"
            )
        call = f"{method} {path.partition('?')[0]}"
        return f"{call} at {self._host} failed with {error.status}: {message}"


@asynccontextmanager
async def open_cluster(
    kubeconfig: Mapping[str, Any] | None, *, namespace: str | None = None
) -> AsyncIterator[Cluster]:
    """Yield the cluster of a kubeconfig's current context, or without one that of the current pod.

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
    except _KUBECONFIG_ERRORS as error:
        raise ClusterError(f"cannot use the kubeconfig: {_one_line(error)}") from error
    async with client:
        yield Cluster(client, namespace or "default")


def is_in_cluster() -> bool:
    """Return whether the process runs in a pod, and so needs no kubeconfig."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


async def _call_all(calls: Sequence[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Make calls concurrently. The first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
