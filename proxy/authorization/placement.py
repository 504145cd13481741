"""Before some decisions it is found out where the caller runs; then the gate decides."""

from dataclasses import replace
from typing import Protocol

from proxy.authorization.gate import DecisionWitness
from proxy.core.action import Action
from proxy.core.admission import Admission
from proxy.core.bound_pod import BoundPod, pod_without_node
from proxy.core.identity import Caller, Identity, node_name
from proxy.core.repeatable_decision import RepeatableDecision


class NodeFinder(Protocol):
    """Knows where pods run."""

    async def node_of(self, pod: BoundPod) -> str | None:
        """Return the pod's node, None if it is on none; refuses if that cannot be found out."""
        ...


class DecidingGate(Protocol):
    """Decides who may act as whom."""

    async def admit(
        self,
        caller: Caller,
        wanted: Identity | None,
        action: Action,
        *,
        is_upgrade: bool = False,
        witness: DecisionWitness | None = None,
    ) -> Admission:
        """Return the permit to forward or refuse."""
        ...

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        """Return by what an equal request can be admitted again, if at all."""
        ...

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        """Return the permit for an equal request if it would come out the same; None in doubt."""
        ...


class PlacingGate:
    """A gate that knows the node of callers whose tokens name only their pod.

    It looks only where the answer matters: a bare node is wanted, and the token names none.
    """

    def __init__(self, gate: DecidingGate, finder: NodeFinder) -> None:
        self._gate = gate
        self._finder = finder

    async def admit(
        self,
        caller: Caller,
        wanted: Identity | None,
        action: Action,
        *,
        is_upgrade: bool = False,
        witness: DecisionWitness | None = None,
    ) -> Admission:
        """Return the permit to forward or refuse."""
        if wanted is not None and wanted.is_bare and node_name(wanted.name) is not None:
            caller = await self._placed(caller)
        return await self._gate.admit(
            caller, wanted, action, is_upgrade=is_upgrade, witness=witness
        )

    def repeatable(
        self, caller: Caller, wanted: Identity | None, action: Action
    ) -> RepeatableDecision | None:
        """Return by what an equal request can be admitted again; never where a pod is looked for.

        A pod may be elsewhere by then.
        """
        if wanted is not None and node_name(wanted.name) is not None:
            return None
        return self._gate.repeatable(caller, wanted, action)

    def admit_again(self, known: RepeatableDecision) -> Admission | None:
        """Return the permit for an equal request if it would come out the same; None in doubt."""
        return self._gate.admit_again(known)

    async def _placed(self, caller: Caller) -> Caller:
        pod = pod_without_node(caller.identity)
        if pod is None:
            return caller
        return replace(caller, found_node=await self._finder.node_of(pod))
