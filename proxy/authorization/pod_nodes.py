"""On which node does a caller run whose token names only its pod? Asked of the real API server.

What is found decides which modes apply, and nothing else: it is no part of the caller's identity,
so it is never forwarded, reviewed or audited.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Protocol

import aiohttp
from cachetools import TTLCache
from kubernetes_asyncio.client import ApiClient, ApiException

from proxy.authorization.impersonation import DecisionObserver
from proxy.concurrency.rate_limit import FairSemaphore, KeyedTokenBucket
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import StatusError, UpstreamUnavailable
from proxy.core.impersonation.cache_keys import ReusableDecision
from proxy.core.impersonation.modes import BoundPod, pod_bound_without_node
from proxy.core.impersonation.permit import Permit
from proxy.core.requestinfo.request_info import RequestInfo
from proxy.core.userinfo import Caller, UserInfo, node_name

# A pod stays on its node as long as it lives, and its token lives no longer.
_REMEMBERED_PODS = 10_000
_TTL_SECONDS = 10.0
# Errors of the transport, of HTTP, and of an answer that does not look like one.
_NO_ANSWER = (
    ApiException,
    aiohttp.ClientError,
    AttributeError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
)


class PodReader(Protocol):
    """Knows pods."""

    async def node_of(self, pod: BoundPod) -> str | None:
        """Return the node of exactly this pod, or None; UpstreamUnavailable for no answer."""
        ...


class PodLookupCounter(Protocol):
    """Counts look-ups of pods."""

    def pod_looked_up(self, outcome: str) -> None:
        """Count one look-up: found, none or error."""
        ...


class KubernetesPodReader:
    """Asks the API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def node_of(self, pod: BoundPod) -> str | None:
        """Return the node of exactly this pod, or None; UpstreamUnavailable for no answer."""
        try:
            found = await self._client.call_api(
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
                "GET",
                auth_settings=["BearerToken"],
                response_types_map={200: "object"},
                _return_http_data_only=True,
            )
            return _node(found, pod)
        except _NO_ANSWER as error:
            if isinstance(error, ApiException) and error.status == HTTPStatus.NOT_FOUND:
                return None
            raise UpstreamUnavailable(
                "the pod of this token cannot be looked up", retry_after_seconds=1
            ) from error


def _node(found: dict[str, dict[str, object]], pod: BoundPod) -> str | None:
    """Return where a pod runs, if it is the one that was meant: a name is used again, a uid is not.

    The API server binds a token only to a pod of the same account, so that must be equal, too.
    """
    metadata, specification = found["metadata"], found["spec"]
    is_it = (metadata["namespace"], metadata["name"], metadata["uid"]) == (
        pod.namespace,
        pod.name,
        pod.uid,
    )
    node = specification.get("nodeName")
    if not is_it or specification.get("serviceAccountName") != pod.account:
        return None
    return node if isinstance(node, str) and node else None


class PodNodeResolver:
    """Finds the node of a pod: each asked for once at a time, in bounded numbers, or remembered."""

    def __init__(
        self,
        reader: PodReader,
        *,
        buckets: KeyedTokenBucket,
        counter: PodLookupCounter,
        limits: tuple[int, float],
        clock: Callable[[], float],
        tasks: TaskSet,
    ) -> None:
        """`limits`: look-ups in flight, and seconds for one, its waiting for a turn included."""
        self._reader = reader
        self._buckets = buckets
        self._counter = counter
        self._semaphore = FairSemaphore(limits[0])
        self._timeout_seconds = limits[1]
        self._tasks = tasks
        self._nodes: TTLCache[BoundPod, str] = TTLCache(_REMEMBERED_PODS, _TTL_SECONDS, timer=clock)
        self._asking: dict[BoundPod, asyncio.Task[str | None]] = {}

    async def node_of(self, pod: BoundPod) -> str | None:
        """Return the pod's node, None if it is on none; refuses if that cannot be found out.

        Only a node is remembered: a pod that is on none may be on one in the next moment.
        """
        known = self._nodes.get(pod)
        if known is not None:
            return known
        asking = self._asking.get(pod)
        if asking is None:
            self._buckets.take(_line_of(pod))
            asking = self._tasks.start(self._ask(pod))
            self._asking[pod] = asking
            asking.add_done_callback(lambda _: self._asking.pop(pod, None))
        # Shielded: one impatient client must not cancel the question for the others.
        return await asyncio.shield(asking)

    async def _ask(self, pod: BoundPod) -> str | None:
        try:
            async with asyncio.timeout(self._timeout_seconds), self._semaphore.slot(_line_of(pod)):
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
            self._nodes[pod] = node
        self._counter.pod_looked_up("none" if node is None else "found")
        return node


def _line_of(pod: BoundPod) -> str:
    return f"{pod.namespace}:{pod.account}"


class NodeFinder(Protocol):
    """Knows where pods run."""

    async def node_of(self, pod: BoundPod) -> str | None:
        """Return the pod's node, None if it is on none; refuses if that cannot be found out."""
        ...


class Authorizer(Protocol):
    """Decides who may act as whom."""

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool = False,
        witness: DecisionObserver | None = None,
    ) -> Permit:
        """Return the permit to forward or refuse."""
        ...

    def reusable_decision(
        self, caller: Caller, wanted_user: UserInfo | None, request_info: RequestInfo
    ) -> ReusableDecision | None:
        """Return by what an equal request can be admitted again, if at all."""
        ...

    def reauthorize(self, known: ReusableDecision) -> Permit | None:
        """Return the permit for an equal request if it would come out the same; None in doubt."""
        ...


class NodeResolver:
    """A gate that knows the node of callers whose tokens name only their pod.

    It looks only where the answer matters: a bare node is wanted, and the token names none.
    """

    def __init__(self, authorizer: Authorizer, finder: NodeFinder) -> None:
        self._authorizer = authorizer
        self._finder = finder

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool = False,
        witness: DecisionObserver | None = None,
    ) -> Permit:
        """Return the permit to forward or refuse."""
        if (
            wanted_user is not None
            and wanted_user.has_only_name
            and node_name(wanted_user.name) is not None
        ):
            caller = await self._placed(caller)
        return await self._authorizer.authorize(
            caller, wanted_user, request_info, is_upgrade=is_upgrade, witness=witness
        )

    def reusable_decision(
        self, caller: Caller, wanted_user: UserInfo | None, request_info: RequestInfo
    ) -> ReusableDecision | None:
        """Return by what an equal request can be admitted again; never where a pod is looked for.

        A pod may be elsewhere by then.
        """
        if wanted_user is not None and node_name(wanted_user.name) is not None:
            return None
        return self._authorizer.reusable_decision(caller, wanted_user, request_info)

    def reauthorize(self, known: ReusableDecision) -> Permit | None:
        """Return the permit for an equal request if it would come out the same; None in doubt."""
        return self._authorizer.reauthorize(known)

    async def _placed(self, caller: Caller) -> Caller:
        pod = pod_bound_without_node(caller.user)
        if pod is None:
            return caller
        return replace(caller, found_node=await self._finder.node_of(pod))
