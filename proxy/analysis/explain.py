"""Driving an explanation with a cluster's answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.analysis.output import printable
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.explain.explainer import Telling, explain
from proxy.core.explain.explanation import Asked, Circumstances, Explanation, Outcome, Request
from proxy.core.impersonation.checks import DecisionRules, check_on, opens_terminal
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import Mode
from proxy.core.impersonation.permit import DEFAULT_GUARDS, Guards
from proxy.core.rbac.grants import GrantObject, Ungrantable, objects_for
from proxy.core.rbac.intent.model import DISCOVERY
from proxy.core.rbac.model import subject_of
from proxy.core.requestinfo.request_info import Action

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


class Part(NamedTuple):
    """One of the parts. `allowed` is None where the question did not come up."""

    name: str
    allowed: bool | None
    question: str


def parts_of(explanation: Explanation) -> list[Part]:
    """Return what became of each part, in the mode that allows it or would."""
    own = Part("own right", explanation.may_do, _questions(explanation.own))
    if explanation.request.wanted is None:
        return [own]
    mode = explanation.mode or explanation.grant_mode or _first_tried(explanation)
    trial = next((one for one in explanation.trials if one.mode is mode), None)
    if trial is None:
        return [Part("action", None, "no mode applies"), own]
    asked = (*trial.asked, *trial.beyond)
    action = [one for one in asked if _is_action(one.check)]
    identity = [one for one in asked if not _is_action(one.check)]
    on_behalf = _part("action", action, explanation)
    if mode is Mode.LEGACY:
        on_behalf = Part("action", None, "legacy impersonation is bound to no action")
    who = _part("identity", identity, explanation)
    if trial.refused:
        who = Part("identity", allowed=False, question=printable(trial.refused))
    return [on_behalf, who, own]


def _first_tried(explanation: Explanation) -> Mode | None:
    tried = [trial for trial in explanation.trials if trial.outcome is not Outcome.NOT_APPLICABLE]
    return tried[0].mode if tried else None


def _part(name: str, asked: Sequence[Asked], explanation: Explanation) -> Part:
    if explanation.mode is not None:
        return Part(name, allowed=True, question=_questions(asked))
    if explanation.grant_mode is not None:
        # Not simply every answer: that not all of a kind is allowed matters to nobody if each is.
        missing = [one for one in asked if one.check in explanation.missing]
        return Part(name, not missing, _questions(missing or asked))
    if not asked:
        return Part(name, None, "not asked")
    return Part(name, all(answer.allowed for _, answer in asked), _questions(asked))


def _is_action(check: AccessCheck) -> bool:
    return check.verb.startswith("impersonate-on:")


def _questions(asked: Sequence[Asked]) -> str:
    denied = [one for one in asked if not one.answer.allowed]
    return ", ".join(printable(check_summary(check)) for check, _ in denied or asked)
