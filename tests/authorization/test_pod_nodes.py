"""On which node a pod runs: what counts as an answer, asked once, remembered for a moment."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import ApiClient, Configuration
from prometheus_client import CollectorRegistry

from proxy.authorization.pod_nodes import KubernetesPodReader, PodNodeResolver
from proxy.concurrency.rate_limit import KeyedTokenBucket, RateLimit
from proxy.concurrency.task_set import TaskSet
from proxy.core.errors import StatusError, TooManyRequests, UpstreamUnavailable
from proxy.core.impersonation.modes import BoundPod
from proxy.core.userinfo import Caller, UserInfo, make_extra
from proxy.telemetry.metrics.impersonation import ImpersonationMetrics
from tests.support.clock import FakeClock
from tests.support.event_loops import eventually
from tests.support.metric_values import metric_values

POD = BoundPod("agents", "agent", "agent-1", "u-1")
FOUND = {
    "metadata": {"namespace": "agents", "name": "agent-1", "uid": "u-1"},
    "spec": {"serviceAccountName": "agent", "nodeName": "n1"},
}
BURST = 5


async def node_told_by(body: object, *, code: int = 200) -> tuple[str | None, list[str]]:
    """Return the node that is read out of an answer, and which paths were asked for."""
    paths = []

    async def handle(request: web.Request) -> web.StreamResponse:
        paths.append(f"{request.method} {request.path}")
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=code, content_type="application/json")

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(application, host="127.0.0.1") as listening:
        url = str(listening.make_url("/")).rstrip("/")
        async with ApiClient(Configuration(host=url)) as client:
            return await KubernetesPodReader(client).node_of(POD), paths


async def test_the_node_of_a_pod_is_found_by_asking_for_that_pod() -> None:
    node, paths = await node_told_by(FOUND)

    assert node == "n1"
    assert paths == ["GET /api/v1/namespaces/agents/pods/agent-1"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {**FOUND["metadata"], "uid": "u-2"}}, id="another uid"),
        pytest.param({"metadata": {**FOUND["metadata"], "name": "agent-2"}}, id="another name"),
        pytest.param({"metadata": {**FOUND["metadata"], "namespace": "a"}}, id="another namespace"),
        pytest.param({"spec": {**FOUND["spec"], "serviceAccountName": "b"}}, id="another account"),
        pytest.param({"spec": {"serviceAccountName": "agent"}}, id="not on a node yet"),
        pytest.param({"spec": {**FOUND["spec"], "nodeName": ""}}, id="an empty node"),
        pytest.param({"spec": {**FOUND["spec"], "nodeName": ["n1"]}}, id="a list of nodes"),
    ],
)
async def test_another_pod_or_none_on_a_node_is_on_no_node(change: dict[str, object]) -> None:
    assert (await node_told_by({**FOUND, **change}))[0] is None


async def test_a_pod_that_is_gone_is_on_no_node() -> None:
    assert (await node_told_by({"kind": "Status"}, code=404))[0] is None


@pytest.mark.parametrize("code", [301, 400, 401, 403, 429, 500, 503])
async def test_an_error_of_the_api_server_is_no_answer(code: int) -> None:
    with pytest.raises(UpstreamUnavailable):
        await node_told_by(FOUND, code=code)


@pytest.mark.parametrize("body", ["", "null", "[]", "{}", '{"metadata": {}}', '"text"', "<html>"])
async def test_what_is_no_pod_is_no_answer(body: str) -> None:
    with pytest.raises(UpstreamUnavailable):
        await node_told_by(body)


@dataclass
class Pods(KubernetesPodReader):
    """Knows nodes; can be made to wait, and to fail."""

    nodes: dict[BoundPod, str] = field(default_factory=lambda: {POD: "n1"})
    failure: StatusError | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[BoundPod] = field(default_factory=list)

    async def node_of(self, pod: BoundPod) -> str | None:
        self.asked.append(pod)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return self.nodes.get(pod)


@dataclass
class House:
    """What finds nodes, and what is around it."""

    pods: Pods
    clock: FakeClock
    registry: CollectorRegistry
    finder: PodNodeResolver

    def counted(self) -> dict[str, float]:
        return metric_values(self.registry, "understudy_pod_lookups_total")


@pytest.fixture
async def house() -> AsyncIterator[House]:
    pods, clock, registry = Pods(), FakeClock(), CollectorRegistry()
    pods.gate.set()
    failures: list[BaseException] = []
    tasks = TaskSet(failures.append)
    finder = PodNodeResolver(
        pods,
        buckets=KeyedTokenBucket(RateLimit(per_second=1, burst=BURST), clock, rejection="too many"),
        counter=ImpersonationMetrics(registry),
        limits=(2, 0.2),
        clock=clock,
        tasks=tasks,
    )
    yield House(pods, clock, registry, finder)
    await tasks.stop()
    assert all(isinstance(failure, StatusError) for failure in failures)


async def test_a_node_is_remembered_for_ten_seconds_and_no_longer(house: House) -> None:
    assert await house.finder.node_of(POD) == "n1"
    house.clock.advance(9.9)
    assert await house.finder.node_of(POD) == "n1"
    assert len(house.pods.asked) == 1

    house.clock.advance(0.2)
    house.pods.nodes.clear()

    assert await house.finder.node_of(POD) is None
    assert house.counted() == {"found": 1, "none": 1}


async def test_a_pod_on_no_node_is_looked_up_again(house: House) -> None:
    house.pods.nodes.clear()
    assert await house.finder.node_of(POD) is None

    house.pods.nodes[POD] = "n1"

    assert await house.finder.node_of(POD) == "n1"


async def test_the_next_pod_of_the_same_name_shares_nothing(house: House) -> None:
    await house.finder.node_of(POD)

    assert await house.finder.node_of(POD._replace(uid="u-2")) is None


async def test_no_answer_is_neither_a_no_nor_remembered(house: House) -> None:
    house.pods.failure = UpstreamUnavailable("nobody answers")
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable):
            await house.finder.node_of(POD)

    house.pods.failure = None

    assert await house.finder.node_of(POD) == "n1"
    assert house.counted() == {"error": 2, "found": 1}


async def test_many_at_once_are_one_question_that_nobody_can_cancel(house: House) -> None:
    house.pods.gate.clear()
    asking = [asyncio.ensure_future(house.finder.node_of(POD)) for _ in range(10)]
    await eventually(lambda: house.pods.asked)

    asking[0].cancel()
    await asyncio.wait(asking[:1])
    house.pods.gate.set()

    assert await asyncio.gather(*asking[1:]) == ["n1"] * 9
    assert len(house.pods.asked) == 1


async def test_an_api_server_that_is_silent_is_no_answer(house: House) -> None:
    house.pods.gate.clear()

    with pytest.raises(UpstreamUnavailable):
        await house.finder.node_of(POD)


async def test_one_account_may_cost_only_so_much(house: House) -> None:
    for number in range(BURST):
        await house.finder.node_of(POD._replace(uid=f"guess-{number}"))

    with pytest.raises(TooManyRequests):
        await house.finder.node_of(POD)

    assert await house.finder.node_of(POD._replace(account="other")) is None


async def test_a_flood_of_one_account_is_bounded_and_delays_no_other(house: House) -> None:
    """Its look-ups hang; another account's has its turn as soon as one of them ends."""
    house.pods.gate.clear()
    flood = [POD._replace(account="mallory", name=f"pod-{n}", uid=f"u{n}") for n in range(200)]

    outcomes = [asyncio.ensure_future(house.finder.node_of(pod)) for pod in flood]
    await asyncio.sleep(0)
    assert len(house.finder._in_flight) <= BURST
    assert len(house.pods.asked) <= 2
    other = asyncio.ensure_future(house.finder.node_of(POD))
    await asyncio.sleep(0.01)
    house.pods.gate.set()

    assert await other == "n1"
    assert house.pods.asked.index(POD) <= 4
    refusals = await asyncio.gather(*outcomes, return_exceptions=True)
    assert sum(isinstance(one, TooManyRequests) for one in refusals) == 200 - BURST
    assert not house.finder._in_flight


async def test_a_flood_of_accounts_leaves_nothing_behind_when_nobody_answers(house: House) -> None:
    house.pods.gate.clear()
    flood = [POD._replace(account=f"account-{n}", uid=f"u{n}") for n in range(300)]

    refusals = await asyncio.gather(
        *(house.finder.node_of(pod) for pod in flood), return_exceptions=True
    )

    assert all(isinstance(one, UpstreamUnavailable) for one in refusals)
    assert len(house.pods.asked) < 30  # two at a time, and then some as places become free
    assert not house.finder._in_flight
    assert not house.finder._semaphore._queues


AGENT = UserInfo(
    "system:serviceaccount:agents:agent",
    extra=make_extra(
        {
            "authentication.kubernetes.io/pod-name": ["agent-1"],
            "authentication.kubernetes.io/pod-uid": ["u-1"],
        }
    ),
)


async def test_caller_gets_the_node_of_the_pod_that_its_token_names(house: House) -> None:
    assert await house.finder.with_node(Caller(AGENT)) == Caller(AGENT, "n1")
    assert house.pods.asked == [POD]


async def test_caller_whose_pod_has_no_node_is_unchanged(house: House) -> None:
    house.pods.nodes.clear()

    assert await house.finder.with_node(Caller(AGENT)) == Caller(AGENT)


async def test_no_pod_is_looked_up_for_a_caller_whose_token_names_none(house: House) -> None:
    assert await house.finder.with_node(Caller(UserInfo("bob"))) == Caller(UserInfo("bob"))
    assert house.pods.asked == []
