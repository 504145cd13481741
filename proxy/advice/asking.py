"""Driving an explanation with a cluster's answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proxy.advice.cluster import Cluster
from proxy.core.access_check import AccessCheck
from proxy.core.action import Action
from proxy.core.admission import DEFAULT_GUARDS, Guards
from proxy.core.explaining import Telling, explain
from proxy.core.explanation import Circumstances, Explanation, Request
from proxy.core.grants import GrantObject, Ungrantable, objects_for
from proxy.core.intent import DISCOVERY
from proxy.core.modes import Mode
from proxy.core.plan import DecisionRules, check_on, opens_terminal
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


async def advise(
    cluster: Cluster, request: Request, settings: Settings, *, for_kubectl: bool = False
) -> Advice:
    """Ask the cluster everything that an explanation needs.

    What is granted `for_kubectl` includes discovery, which it visits before the deed itself.
    """
    circumstances = await _circumstances(cluster, request, settings)
    explanation = await _drive(cluster, explain(request, circumstances))
    visits = await _missing_visits(cluster, explanation) if for_kubectl else []
    return advice_on(explanation, visits=visits)


def advice_on(explanation: Explanation, *, visits: Sequence[AccessCheck] = ()) -> Advice:
    """Return what to apply, or why there is nothing that would help."""
    if explanation.hopeless or not (explanation.missing or visits):
        return Advice(explanation, no_grant=explanation.hopeless)
    subject = subject_of(explanation.request.caller.identity)
    try:
        objects = objects_for(subject, explanation.missing, patterns=visits)
    except Ungrantable as error:
        return Advice(explanation, no_grant=str(error))
    return Advice(explanation, tuple(objects))


async def _drive(cluster: Cluster, telling: Telling) -> Explanation:
    try:
        check = next(telling)
        while True:
            check = telling.send(await cluster.review(check))
    except StopIteration as told:
        explanation: Explanation = told.value
        return explanation


async def _missing_visits(cluster: Cluster, explanation: Explanation) -> list[AccessCheck]:
    mode = explanation.grant_mode or explanation.mode
    if mode is None or mode is Mode.LEGACY:
        return []
    user, verb = explanation.request.caller.identity, mode.action_verb("get")
    checks = [check_on(Action("get", path), verb, user=user) for path in DISCOVERY]
    answers = await cluster.review_all(checks)
    return [check for check, answer in zip(checks, answers, strict=True) if not answer.allowed]


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
