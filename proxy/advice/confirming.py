"""Whether the API server agrees about who may act as somebody."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from proxy.advice.cluster import Cluster
from proxy.advice.deciding import Decider
from proxy.core.action import Action
from proxy.core.identity import Identity
from proxy.core.who_can import Found, Holder, Requirement, caller_identity, requirements


class Told(NamedTuple):
    """Somebody who may, as whom, and whether the API server says so."""

    holder: Holder
    wanted: Identity
    is_confirmed: bool


async def confirmed(cluster: Cluster, found: Sequence[Found], action: Action) -> list[Told]:
    """Ask about everyone who was found, by the same checks."""
    decider = Decider(cluster)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_confirm(decider, one, action)) for one in found]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


async def _confirm(decider: Decider, found: Found, action: Action) -> Told:
    wanted, holder = found
    caller = caller_identity(holder, wanted)
    for requirement in requirements(holder.mode, wanted, action) or ():
        if not await _is_met(decider, requirement, caller):
            return Told(holder, wanted, is_confirmed=False)
    return Told(holder, wanted, is_confirmed=True)


async def _is_met(decider: Decider, requirement: Requirement, caller: Identity) -> bool:
    for check in requirement:
        answer = await decider.ask(replace(check, user=caller))
        if answer.allowed:
            return True
    return False
