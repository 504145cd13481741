"""When it is found out where a caller runs, and what the gate is told then."""

from dataclasses import dataclass, field

import pytest

from proxy.authorization.pod_nodes import NodeResolver
from proxy.core.errors import UpstreamUnavailable
from proxy.core.impersonation.cache_keys import ReusableDecision
from proxy.core.impersonation.modes import BoundPod
from proxy.core.impersonation.permit import DEFAULT_RESTRICTIONS, Permit, permit_self
from proxy.core.requestinfo.request_info import RequestInfo, parse_request_info
from proxy.core.userinfo import Caller, UserInfo, make_extra

LIST_PODS = parse_request_info(b"GET", b"/api/v1/pods")
EXTRA = {
    "authentication.kubernetes.io/pod-name": ["agent-1"],
    "authentication.kubernetes.io/pod-uid": ["u-1"],
}
AGENT = Caller(UserInfo("system:serviceaccount:agents:agent", extra=make_extra(EXTRA)))
NODE = UserInfo("system:node:n1")
ALICE = UserInfo("alice")


@dataclass
class Finder:
    node: str | None = "n1"
    failure: Exception | None = None
    asked: list[BoundPod] = field(default_factory=list)

    async def node_of(self, pod: BoundPod) -> str | None:
        self.asked.append(pod)
        if self.failure is not None:
            raise self.failure
        return self.node


@dataclass
class Gate:
    seen: list[tuple[Caller, UserInfo | None, bool]] = field(default_factory=list)

    async def authorize(
        self,
        caller: Caller,
        wanted_user: UserInfo | None,
        request_info: RequestInfo,
        *,
        is_upgrade: bool = False,
        observer: object = None,
    ) -> Permit:
        assert request_info is LIST_PODS
        self.seen.append((caller, wanted_user, is_upgrade))
        return permit_self(caller)

    def reusable_decision(
        self, caller: Caller, wanted_user: UserInfo | None, request_info: RequestInfo
    ) -> ReusableDecision | None:
        return ReusableDecision(b"key", DEFAULT_RESTRICTIONS, permit_self(caller))

    def reauthorize(self, known: ReusableDecision) -> Permit | None:
        return known.permit


async def test_the_gate_is_told_the_node_beside_the_identity() -> None:
    gate, finder = Gate(), Finder()

    await NodeResolver(gate, finder).authorize(AGENT, NODE, LIST_PODS, is_upgrade=True)

    assert gate.seen == [(Caller(AGENT.user, "n1"), NODE, True)]
    assert finder.asked == [BoundPod("agents", "agent", "agent-1", "u-1")]


async def test_a_pod_on_no_node_leaves_the_caller_as_it_is() -> None:
    gate = Gate()

    await NodeResolver(gate, Finder(node=None)).authorize(AGENT, NODE, LIST_PODS)

    assert gate.seen == [(AGENT, NODE, False)]


@pytest.mark.parametrize(
    ("caller", "wanted_user"),
    [
        pytest.param(AGENT, None, id="nobody is wanted"),
        pytest.param(AGENT, UserInfo("bob"), id="a user is wanted"),
        pytest.param(AGENT, UserInfo("system:node:"), id="no real node is wanted"),
        pytest.param(AGENT, UserInfo(NODE.name, groups=("a",)), id="more than a node is wanted"),
        pytest.param(Caller(UserInfo("bob")), NODE, id="not a pod"),
    ],
)
async def test_nothing_is_looked_up_where_it_would_decide_nothing(
    caller: Caller, wanted_user: UserInfo | None
) -> None:
    gate, finder = Gate(), Finder()

    await NodeResolver(gate, finder).authorize(caller, wanted_user, LIST_PODS)

    assert finder.asked == []
    assert gate.seen == [(caller, wanted_user, False)]


async def test_where_it_cannot_be_found_out_nothing_is_decided() -> None:
    gate, finder = Gate(), Finder(failure=UpstreamUnavailable("nobody answers"))

    with pytest.raises(UpstreamUnavailable):
        await NodeResolver(gate, finder).authorize(AGENT, NODE, LIST_PODS)

    assert gate.seen == []


@pytest.mark.parametrize(
    ("wanted_user", "is_repeatable"), [(NODE, False), (None, True), (ALICE, True)]
)
async def test_where_a_pod_is_looked_for_nothing_is_decided_from_notes(
    wanted_user: UserInfo | None, is_repeatable: object
) -> None:
    """A pod may be elsewhere by then."""
    authorizer = NodeResolver(Gate(), Finder())

    known = authorizer.reusable_decision(AGENT, wanted_user, LIST_PODS)

    assert (known is not None) == is_repeatable
    assert known is None or authorizer.reauthorize(known) is known.permit
