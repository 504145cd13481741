"""Node lookup by reading the pod, for callers with a token that names only their pod.

The node decides which impersonation modes apply, and nothing else. It is not part of the caller's
user info, so it is never forwarded, reviewed or audited.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.concurrency.rate_limit import FairSemaphore, KeyedTokenBucket
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import StatusError, UpstreamUnavailable
from proxy.core.impersonation.modes import BoundPod, pod_bound_without_node
from proxy.core.ttl_cache import TTLCache
from proxy.core.userinfo import Caller
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics

# A pod never changes its node, and its token does not outlive it.
_MAX_CACHED_PODS = 10_000
_TTL_SECONDS = 10.0
# Errors of the transport, of HTTP, and of malformed responses.
_LOOKUP_ERRORS = (
    ApiException,
    aiohttp.ClientError,
    AttributeError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
)


class KubernetesPodReader:
    """Reads pods from the API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def node_of(self, pod: BoundPod) -> str | None:
        """Return the node of exactly this pod, or None; raise UpstreamUnavailable on errors."""
        try:
            found = await self._client.call_api(
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
                "GET",
                auth_settings=["BearerToken"],
                response_types_map={200: "object"},
                _return_http_data_only=True,
            )
            return _node(found, pod)
        except _LOOKUP_ERRORS as error:
            if isinstance(error, ApiException) and error.status == HTTPStatus.NOT_FOUND:
                return None
            raise UpstreamUnavailable(
                "the pod of this token cannot be looked up", retry_after_seconds=1
            ) from error


def _node(found: dict[str, dict[str, object]], pod: BoundPod) -> str | None:
    """Return the node of a pod if it is the one in the token, else None.

    Names are reused, uids are not, so the uid is compared. kube-apiserver binds a token only to a
    pod of the same service account, so the account must be equal as well.
    """
    metadata, specification = found["metadata"], found["spec"]
    is_same_pod = (metadata["namespace"], metadata["name"], metadata["uid"]) == (
        pod.namespace,
        pod.name,
        pod.uid,
    )
    node = specification.get("nodeName")
    if not is_same_pod or specification.get("serviceAccountName") != pod.account:
        return None
    return node if isinstance(node, str) and node else None


class PodNodeResolver:
    """Finds the node of a pod: cached, or looked up once at a time and in bounded numbers."""

    def __init__(
        self,
        reader: KubernetesPodReader,
        *,
        buckets: KeyedTokenBucket,
        counter: ImpersonationMetrics,
        limits: tuple[int, float],
        clock: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        """`limits`: lookups in flight, and seconds for one, including its wait for a slot."""
        self._reader = reader
        self._buckets = buckets
        self._counter = counter
        self._semaphore = FairSemaphore(limits[0])
        self._timeout_seconds = limits[1]
        self._tasks = tasks
        self._nodes = TTLCache[BoundPod, str](_MAX_CACHED_PODS, _TTL_SECONDS, clock)
        self._in_flight: dict[BoundPod, asyncio.Task[str | None]] = {}

    async def with_node(self, caller: Caller) -> Caller:
        """Return the caller with the node of its pod, or unchanged if its token names no pod.

        A node that the token names is not looked up. Raises a StatusError if the lookup fails.
        """
        pod = pod_bound_without_node(caller.user)
        return caller if pod is None else replace(caller, looked_up_node=await self.node_of(pod))

    async def node_of(self, pod: BoundPod) -> str | None:
        """Return the pod's node, None if it has none; raise a StatusError if the lookup fails.

        Only a found node is cached: a pod without a node may be scheduled at any time.
        """
        known = self._nodes.get(pod)
        if known is not None:
            return known
        task = self._in_flight.get(pod)
        if task is None:
            self._buckets.take(_account_key(pod))
            task = self._tasks.start(self._look_up(pod))
            self._in_flight[pod] = task
            task.add_done_callback(lambda _: self._in_flight.pop(pod, None))
        # Shielded: a client that disconnects must not cancel the lookup for others.
        return await asyncio.shield(task)

    async def _look_up(self, pod: BoundPod) -> str | None:
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                self._semaphore.slot(_account_key(pod)),
            ):
                node = await self._reader.node_of(pod)
        except TimeoutError as error:
            self._counter.pod_looked_up("error")
            raise UpstreamUnavailable(
                "the pod of this token was not looked up in time", retry_after_seconds=1
            ) from error
        except StatusError:
            self._counter.pod_looked_up("error")
            raise
        if node is not None:
            self._nodes.put(pod, node)
        self._counter.pod_looked_up("none" if node is None else "found")
        return node


def _account_key(pod: BoundPod) -> str:
    return f"{pod.namespace}:{pod.account}"
