"""Driving an explanation with a cluster's answers."""

from dataclasses import dataclass, replace

from proxy.advice.cluster import Cluster
from proxy.core.admission import DEFAULT_GUARDS, Guards
from proxy.core.explaining import explain
from proxy.core.explanation import Circumstances, Explanation, Request
from proxy.core.grants import GrantObject, Ungrantable, objects_for
from proxy.core.plan import DecisionRules, opens_terminal
from proxy.core.rbac import subject_of

_FIRST_WITH_UIDS = (1, 22)
_FIRST_WITH_CREATE = (1, 35)


@dataclass(frozen=True, slots=True)
class Settings:
    """How the proxy is set, as far as it changes a decision."""

    rules: DecisionRules
    guards: Guards = DEFAULT_GUARDS


@dataclass(frozen=True, slots=True)
class Advice:
    """An explanation, and what to apply so that the request is allowed, if anything can be."""

    explanation: Explanation
    grant: tuple[GrantObject, ...] = ()
    no_grant: str = ""
    """Why nothing can be granted, where something would be missing."""


async def advise(cluster: Cluster, request: Request, settings: Settings) -> Advice:
    """Ask the cluster everything that an explanation needs."""
    telling = explain(request, await _circumstances(cluster, request, settings))
    try:
        check = next(telling)
        while True:
            check = telling.send(await cluster.review(check))
    except StopIteration as told:
        return advice_on(told.value)


def advice_on(explanation: Explanation) -> Advice:
    """Return what to apply, or why there is nothing that would help."""
    if not explanation.missing:
        return Advice(explanation, no_grant=explanation.hopeless)
    subject = subject_of(explanation.request.caller.identity)
    try:
        return Advice(explanation, tuple(objects_for(subject, explanation.missing)))
    except Ungrantable as error:
        return Advice(explanation, no_grant=str(error))


async def _circumstances(cluster: Cluster, request: Request, settings: Settings) -> Circumstances:
    wanted = request.wanted or request.caller.identity
    is_stream = opens_terminal(request.action)
    if not wanted.uid and not is_stream:
        return Circumstances(settings.rules, settings.guards)
    version = await cluster.version()
    return Circumstances(
        settings.rules,
        replace(settings.guards, takes_uids=version >= _FIRST_WITH_UIDS),
        streams_need_create=version >= _FIRST_WITH_CREATE,
    )
