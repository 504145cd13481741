"""Driving an explanation with a cluster's answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from proxy.analysis.cluster import Cluster
from proxy.analysis.output import escape_control_characters
from proxy.core.authorization.access_check import AccessCheck
from proxy.core.explain.explainer import ExplainSteps, explain
from proxy.core.explain.explanation import (
    CheckOutcome,
    DecisionContext,
    ExplainRequest,
    Explanation,
    ModeOutcome,
)
from proxy.core.impersonation.checks import ImpersonationRules, access_check_for, is_pod_stream_get
from proxy.core.impersonation.evaluation import check_summary
from proxy.core.impersonation.modes import ImpersonationMode
from proxy.core.impersonation.permit import DEFAULT_GUARDS, IdentityRestrictions
from proxy.core.rbac.grants import GrantObject, UngrantableError, rbac_objects_for
from proxy.core.rbac.intent.model import DISCOVERY
from proxy.core.rbac.model import subject_of
from proxy.core.requestinfo.request_info import RequestInfo

_FIRST_WITH_UIDS = (1, 22)
_FIRST_WITH_CREATE = (1, 35)


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """How the proxy is set, as far as it changes a decision."""

    rules: ImpersonationRules
    restrictions: IdentityRestrictions = DEFAULT_GUARDS


@dataclass(frozen=True, slots=True)
class ExplainResult:
    """An explanation, and what to apply so that the request is allowed, if anything can be."""

    explanation: Explanation
    grant: tuple[GrantObject, ...] = ()
    no_grant_reason: str = ""
    """Why nothing can be granted, where something would be missing."""


async def explain_request(
    cluster: Cluster,
    request: ExplainRequest,
    settings: DecisionSettings,
    *,
    for_kubectl: bool = False,
) -> ExplainResult:
    """Ask the cluster everything that an explanation needs.

    What is granted `for_kubectl` includes discovery, which it visits before the deed itself.
    """
    circumstances = await _circumstances(cluster, request, settings)
    explanation = await _drive(cluster, explain(request, circumstances))
    visits = await _missing_visits(cluster, explanation) if for_kubectl else []
    return build_result(explanation, visits=visits)


def build_result(explanation: Explanation, *, visits: Sequence[AccessCheck] = ()) -> ExplainResult:
    """Return what to apply, or why there is nothing that would help."""
    if explanation.unsatisfiable_reason or not (explanation.missing or visits):
        return ExplainResult(explanation, no_grant_reason=explanation.unsatisfiable_reason)
    subject = subject_of(explanation.request.caller.user)
    try:
        objects = rbac_objects_for(subject, explanation.missing, patterns=visits)
    except UngrantableError as error:
        return ExplainResult(explanation, no_grant_reason=str(error))
    return ExplainResult(explanation, tuple(objects))


async def _drive(cluster: Cluster, telling: ExplainSteps) -> Explanation:
    try:
        check = next(telling)
        while True:
            check = telling.send(await cluster.review(check))
    except StopIteration as told:
        explanation: Explanation = told.value
        return explanation


async def _missing_visits(cluster: Cluster, explanation: Explanation) -> list[AccessCheck]:
    mode = explanation.grant_mode or explanation.mode
    if mode is None or mode is ImpersonationMode.LEGACY:
        return []
    user, verb = explanation.request.caller.user, mode.action_verb("get")
    checks = [access_check_for(RequestInfo("get", path), verb, user=user) for path in DISCOVERY]
    answers = await cluster.review_all(checks)
    return [check for check, result in zip(checks, answers, strict=True) if not result.allowed]


async def _circumstances(
    cluster: Cluster, request: ExplainRequest, settings: DecisionSettings
) -> DecisionContext:
    wanted_user = request.wanted_user or request.caller.user
    is_stream = is_pod_stream_get(request.request_info)
    if not wanted_user.uid and not is_stream:
        return DecisionContext(settings.rules, settings.restrictions)
    version = await cluster.version()
    return DecisionContext(
        settings.rules,
        replace(settings.restrictions, supports_uid=version >= _FIRST_WITH_UIDS),
        streams_need_create=version >= _FIRST_WITH_CREATE,
    )


class AccessPart(NamedTuple):
    """One of the parts. `allowed` is None where the question did not come up."""

    name: str
    allowed: bool | None
    check: str


def summarize_parts(explanation: Explanation) -> list[AccessPart]:
    """Return what became of each part, in the mode that allows it or would."""
    own = AccessPart("own right", explanation.may_do, _questions(explanation.target_check))
    if explanation.request.wanted_user is None:
        return [own]
    mode = explanation.mode or explanation.grant_mode or _first_tried(explanation)
    trial = next((one for one in explanation.trials if one.mode is mode), None)
    if trial is None:
        return [AccessPart("action", None, "no mode applies"), own]
    asked = (*trial.checks, *trial.beyond)
    action = [one for one in asked if _is_action(one.check)]
    identity = [one for one in asked if not _is_action(one.check)]
    on_behalf = _part("action", action, explanation)
    if mode is ImpersonationMode.LEGACY:
        on_behalf = AccessPart("action", None, "legacy impersonation is bound to no action")
    who = _part("identity", identity, explanation)
    if trial.forbidden:
        who = AccessPart(
            "identity", allowed=False, check=escape_control_characters(trial.forbidden)
        )
    return [on_behalf, who, own]


def _first_tried(explanation: Explanation) -> ImpersonationMode | None:
    tried = [
        trial for trial in explanation.trials if trial.outcome is not ModeOutcome.NOT_APPLICABLE
    ]
    return tried[0].mode if tried else None


def _part(name: str, asked: Sequence[CheckOutcome], explanation: Explanation) -> AccessPart:
    if explanation.mode is not None:
        return AccessPart(name, allowed=True, check=_questions(asked))
    if explanation.grant_mode is not None:
        # Not simply every answer: that not all of a kind is allowed matters to nobody if each is.
        missing = [one for one in asked if one.check in explanation.missing]
        return AccessPart(name, not missing, _questions(missing or asked))
    if not asked:
        return AccessPart(name, None, "not asked")
    return AccessPart(name, all(result.allowed for _, result in asked), _questions(asked))


def _is_action(check: AccessCheck) -> bool:
    return check.verb.startswith("impersonate-on:")


def _questions(asked: Sequence[CheckOutcome]) -> str:
    denied = [one for one in asked if not one.result.allowed]
    return ", ".join(
        escape_control_characters(check_summary(check)) for check, _ in denied or asked
    )
