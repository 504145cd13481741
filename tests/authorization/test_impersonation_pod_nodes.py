"""When the authorizer looks up the node of a caller, and what the node decides."""

from dataclasses import dataclass, field

import pytest

from proxy.authorization.pod_nodes import PodNodeResolver
from proxy.core.errors import Forbidden, UpstreamUnavailable
from proxy.core.impersonation.modes import BoundPod
from proxy.core.userinfo import Caller, UserInfo, make_extra
from tests.authorization.test_impersonation import LIST_PODS, NODE_GRANTS, House

EXTRA = {
    "authentication.kubernetes.io/pod-name": ["agent-1"],
    "authentication.kubernetes.io/pod-uid": ["u-1"],
}
AGENT = Caller(UserInfo("system:serviceaccount:agents:agent", extra=make_extra(EXTRA)))
NODE = UserInfo("system:node:n1")
ALICE = UserInfo("alice")


@dataclass
class PodNodes(PodNodeResolver):
    """Knows the node of every pod."""

    node: str | None = "n1"
    failure: Exception | None = None
    asked: list[BoundPod] = field(default_factory=list)

    async def node_of(self, pod: BoundPod) -> str | None:
        self.asked.append(pod)
        if self.failure is not None:
            raise self.failure
        return self.node


async def test_looked_up_node_decides_the_mode_and_is_not_forwarded() -> None:
    pod_nodes = PodNodes()
    house = House(*NODE_GRANTS, pod_nodes=pod_nodes)

    permit = (await house.gate.authorize(AGENT, NODE, LIST_PODS)).permit

    assert permit.constraint == "impersonate:associated-node"
    assert permit.caller == Caller(AGENT.user, "n1")
    assert "n1" not in str(permit.caller.user)
    assert pod_nodes.asked == [BoundPod("agents", "agent", "agent-1", "u-1")]


@pytest.mark.parametrize("node", [None, "n2"])
async def test_caller_on_no_node_or_another_one_is_denied(node: str | None) -> None:
    house = House(*NODE_GRANTS, pod_nodes=PodNodes(node=node))

    with pytest.raises(Forbidden):
        await house.gate.authorize(AGENT, NODE, LIST_PODS)


async def test_without_the_lookup_the_caller_is_denied() -> None:
    with pytest.raises(Forbidden):
        await House(*NODE_GRANTS).gate.authorize(AGENT, NODE, LIST_PODS)


@pytest.mark.parametrize(
    ("caller", "wanted_user"),
    [
        pytest.param(AGENT, None, id="no impersonation"),
        pytest.param(AGENT, UserInfo("bob"), id="a user"),
        pytest.param(AGENT, UserInfo("system:node:"), id="no valid node"),
        pytest.param(AGENT, UserInfo(NODE.name, groups=("a",)), id="more than a node"),
        pytest.param(Caller(UserInfo("bob")), NODE, id="caller is not a pod"),
    ],
)
async def test_node_is_not_looked_up_if_it_decides_nothing(
    caller: Caller, wanted_user: UserInfo | None
) -> None:
    pod_nodes = PodNodes()
    grants = ("impersonate", "impersonate:user-info", "impersonate-on:user-info:list")
    house = House(*grants, pod_nodes=pod_nodes)

    permit = (await house.gate.authorize(caller, wanted_user, LIST_PODS)).permit

    assert pod_nodes.asked == []
    assert permit.caller == caller


async def test_failed_lookup_rejects_the_request_before_any_review() -> None:
    house = House(*NODE_GRANTS, pod_nodes=PodNodes(failure=UpstreamUnavailable("no answer")))

    with pytest.raises(UpstreamUnavailable):
        await house.gate.authorize(AGENT, NODE, LIST_PODS)

    assert house.asked() == []


async def test_node_is_looked_up_for_each_request() -> None:
    """The pod may have been replaced."""
    pod_nodes = PodNodes()
    house = House(*NODE_GRANTS, pod_nodes=pod_nodes)

    for _ in range(3):
        assert (await house.gate.authorize(AGENT, NODE, LIST_PODS)).recheck is None
    pod_nodes.node = "n2"
    with pytest.raises(Forbidden):
        await house.gate.authorize(AGENT, NODE, LIST_PODS)


@pytest.mark.parametrize("wanted_user", [None, ALICE])
async def test_request_without_a_node_can_be_confirmed(wanted_user: UserInfo | None) -> None:
    grants = ("impersonate:user-info", "impersonate-on:user-info:list")
    house = House(*grants, pod_nodes=PodNodes())

    result = await house.gate.authorize(AGENT, wanted_user, LIST_PODS)

    assert result.recheck is not None
    assert result.recheck()
