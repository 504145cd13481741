"""When it is found out where a caller runs, and what the gate is told then."""

from dataclasses import dataclass, field

import pytest

from proxy.authorization.pod_nodes import PlacingGate
from proxy.core.errors import UpstreamUnavailable
from proxy.core.impersonation.cache_keys import RepeatableDecision
from proxy.core.impersonation.modes import BoundPod
from proxy.core.impersonation.permit import DEFAULT_GUARDS, Admission, admit_self
from proxy.core.requestinfo.request_info import Action, parse_action
from proxy.core.userinfo import Caller, Identity, extra_of

LIST_PODS = parse_action(b"GET", b"/api/v1/pods")
EXTRA = {
    "authentication.kubernetes.io/pod-name": ["agent-1"],
    "authentication.kubernetes.io/pod-uid": ["u-1"],
}
AGENT = Caller(Identity("system:serviceaccount:agents:agent", extra=extra_of(EXTRA)))
NODE = Identity("system:node:n1")
ALICE = Identity("alice")


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
    seen: list[tuple[Caller, Identity | None, bool]] = field(default_factory=list)

    async def admit(
        self,
        caller: Caller,
        wanted: Identity | None,
        action: Action,
        *,
        is_upgrade: bool = False,
        witness: object = None,
    ) -> Admission:
        assert action is LIST_PODS
        self.seen.append((caller, wanted, is_upgrade))
        return admit_self(caller)

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        return RepeatableDecision(b"key", DEFAULT_GUARDS, admit_self(caller))

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        return known.admission


async def test_the_gate_is_told_the_node_beside_the_identity() -> None:
    gate, finder = Gate(), Finder()

    await PlacingGate(gate, finder).admit(AGENT, NODE, LIST_PODS, is_upgrade=True)

    assert gate.seen == [(Caller(AGENT.identity, "n1"), NODE, True)]
    assert finder.asked == [BoundPod("agents", "agent", "agent-1", "u-1")]


async def test_a_pod_on_no_node_leaves_the_caller_as_it_is() -> None:
    gate = Gate()

    await PlacingGate(gate, Finder(node=None)).admit(AGENT, NODE, LIST_PODS)

    assert gate.seen == [(AGENT, NODE, False)]


@pytest.mark.parametrize(
    ("caller", "wanted"),
    [
        pytest.param(AGENT, None, id="nobody is wanted"),
        pytest.param(AGENT, Identity("bob"), id="a user is wanted"),
        pytest.param(AGENT, Identity("system:node:"), id="no real node is wanted"),
        pytest.param(AGENT, Identity(NODE.name, groups=("a",)), id="more than a node is wanted"),
        pytest.param(Caller(Identity("bob")), NODE, id="not a pod"),
    ],
)
async def test_nothing_is_looked_up_where_it_would_decide_nothing(
    caller: Caller, wanted: Identity | None
) -> None:
    gate, finder = Gate(), Finder()

    await PlacingGate(gate, finder).admit(caller, wanted, LIST_PODS)

    assert finder.asked == []
    assert gate.seen == [(caller, wanted, False)]


async def test_where_it_cannot_be_found_out_nothing_is_decided() -> None:
    gate, finder = Gate(), Finder(failure=UpstreamUnavailable("nobody answers"))

    with pytest.raises(UpstreamUnavailable):
        await PlacingGate(gate, finder).admit(AGENT, NODE, LIST_PODS)

    assert gate.seen == []


@pytest.mark.parametrize(("wanted", "is_repeatable"), [(NODE, False), (None, True), (ALICE, True)])
async def test_where_a_pod_is_looked_for_nothing_is_decided_from_notes(
    wanted: Identity | None, is_repeatable: object
) -> None:
    """A pod may be elsewhere by then."""
    gate = PlacingGate(Gate(), Finder())

    known = gate.repeatable(AGENT, wanted, LIST_PODS)

    assert (known is not None) == is_repeatable
    assert known is None or gate.admit_again(known) is known.admission
